"""Interface of runners of untrusted programs, local and remote."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TypeVar

from rlcomp.sandbox.job import DEFAULT_LIMITS, CallsJob, CheckJob, Job, Limits, StdioJob
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.plain_data import encode

Self = TypeVar("Self", bound="ProgramRunner")


class ProgramRunner:
    """Interface of runners of jobs."""

    @property
    def tier(self) -> str:
        """The tier of isolation (docs/sandbox.md).

        Raises:
            ConfigError: there is none, or a weaker one than required.
        """
        raise NotImplementedError

    def map(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run many jobs, each distinct one once.

        Returns:
            The outcomes, in the order of the jobs.

        Raises:
            RlcompError: the runner lost a job.
        """
        raise NotImplementedError

    def check(self, kind: type[Job] | None, *, measured: bool) -> None:
        """Refuse jobs that this runner cannot run later.

        Args:
            kind: kind of the jobs to come; None: not known yet.
            measured: whether their memory must be measured.

        Raises:
            ConfigError: it cannot run them, or lacks the required isolation.
        """
        _ = self.tier

    def run_stdio(self, source: str, stdin: str = "", limits: Limits = DEFAULT_LIMITS) -> Outcome:
        """Run a program on an input; the caller judges its ``stdout``."""
        return self.map([StdioJob(source, stdin, limits)])[0]

    def run_check(
        self,
        candidate_source: str,
        test_source: str | Sequence[str],
        entry_point: str,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Outcome:
        """Test a function by another source: ``check(candidate)``, or a list of asserts."""
        tests = (test_source,) if isinstance(test_source, str) else tuple(test_source)
        return self.map([CheckJob(candidate_source, tests, entry_point, limits)])[0]

    def run_calls(
        self,
        source: str,
        inputs: Sequence[tuple[object, ...]],
        entry_point: str = "",
        names: Sequence[str] = (),
        limits: Limits = DEFAULT_LIMITS,
    ) -> Outcome:
        """Call a function, or evaluate an expression of ``names``, with many inputs in one job."""
        texts = tuple(encode(each) for each in inputs)
        return self.map([CallsJob(source, texts, entry_point, tuple(names), limits)])[0]

    def close(self) -> None:
        """End all processes of the runner."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
