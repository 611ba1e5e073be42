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
        """Name of the tier of isolation (docs/sandbox.md).

        Raises:
            ConfigError: the machine has no tier as strong as required.
        """
        raise NotImplementedError

    def map(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run many jobs; equal jobs run once.

        Returns:
            The outcomes, in the order of the jobs.

        Raises:
            RlcompError: the runner lost a job.
        """
        raise NotImplementedError

    def check(self, kind: type[Job] | None, *, measured: bool) -> None:
        """Check that this runner can run a kind of jobs.

        Args:
            kind: class of the jobs; None: not known yet.
            measured: whether their memory must be measured.

        Raises:
            ConfigError: the runner cannot run the jobs, or lacks the required isolation.
        """
        _ = self.tier

    def run_stdio(self, source: str, stdin: str = "", limits: Limits = DEFAULT_LIMITS) -> Outcome:
        """Run a program on an input and return the outcome, with the program's ``stdout``."""
        return self.map([StdioJob(source, stdin, limits)])[0]

    def run_check(
        self,
        candidate_source: str,
        test_source: str | Sequence[str],
        entry_point: str,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Outcome:
        """Test a function and return the outcome.

        Args:
            candidate_source: Python that defines the function.
            test_source: Python with asserts, or with a function ``check(candidate)``; a list: one
                test for each source.
            entry_point: name of the function.
            limits: limits of each of the two programs.
        """
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
        """Call a function with many inputs in one job and return the outcome.

        Args:
            source: Python that defines the function; with ``names`` an expression of these names.
            inputs: arguments of each call.
            entry_point: name of the function; unused with ``names``.
            names: variables of an expression.
            limits: limits of all calls together.

        Raises:
            NotPlainData: an argument is not plain data (:mod:`rlcomp.sandbox.plain_data`).
        """
        texts = tuple(map(encode, inputs))
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
