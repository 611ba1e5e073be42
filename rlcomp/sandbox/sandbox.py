"""Sandbox: runs programs that nobody has read, and says what became of them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from types import TracebackType

from rlcomp.errors import RlcompError
from rlcomp.sandbox.batch import Batch, new_worker
from rlcomp.sandbox.job import DEFAULT_LIMITS, CallsJob, CheckJob, Job, Limits, StdioJob
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.plain_data import encode
from rlcomp.sandbox.running import Worker
from rlcomp.sandbox.tier import Tier, strongest


class Sandbox:
    """Sandboxed execution of untrusted Python.

    Args:
        workers: jobs at a time; each has two fork servers of some 15 MiB.
        min_tier: the weakest walls that will do: ``strict`` or ``portable`` (docs/sandbox.md).

    Attributes:
        tier: the walls there are.

    Raises:
        ConfigError: this machine gives less than ``min_tier``.
    """

    def __init__(self, *, workers: int = 2, min_tier: Tier = "strict") -> None:
        self.tier = strongest(min_tier)
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._close = weakref.finalize(self, _close_all, self._workers, self._owner)
        try:
            for _ in range(workers):
                self._workers.append(new_worker(self.tier))
        except BaseException:
            self.close()
            raise

    def run_stdio(self, source: str, stdin: str = "", limits: Limits = DEFAULT_LIMITS) -> Outcome:
        """Run a program on an input; whether ``stdout`` is right is for the caller to say."""
        return self.map([StdioJob(source, stdin, limits)])[0]

    def run_check(
        self,
        candidate_source: str,
        test_source: str | Sequence[str],
        entry_point: str,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Outcome:
        """Test a function of one source by another: ``check(candidate)``, or a list of asserts."""
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
        """Call a function, or evaluate an expression of ``names``, at many inputs in one job."""
        texts = tuple(encode(each) for each in inputs)
        return self.map([CallsJob(source, texts, entry_point, tuple(names), limits)])[0]

    def map(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run many jobs, as many at a time as there are workers; each distinct one once.

        Returns:
            Their outcomes, in the order of the jobs.

        Raises:
            RlcompError: the sandbox itself failed, twice at the same job.
        """
        if os.getpid() != self._owner or not self._close.alive:
            raise RlcompError(
                "this sandbox is closed, or belongs to another process: make one here"
            )
        with self._lock:
            outcomes = Batch(self._workers, self.tier, jobs).run()
        return [outcomes[job] for job in jobs]

    def close(self) -> None:
        """End all workers; nothing is left of them. The end of the process does it as well."""
        self._close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _close_all(workers: list[Worker], owner: int) -> None:
    if os.getpid() == owner:  # a fork of the owner has no business with them
        while workers:
            workers.pop().close()
