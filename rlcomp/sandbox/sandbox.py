"""Local runner of untrusted programs."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Literal

from rlcomp.errors import ConfigError, RlcompError
from rlcomp.sandbox.batch import Batch, new_worker
from rlcomp.sandbox.job import Job
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.sandbox.running_job import ForkServerPair
from rlcomp.sandbox.tier import Tier, check_tier, strongest


class Sandbox(ProgramRunner):
    """Runner of untrusted Python in jails on this machine.

    Processes start with the first job, :meth:`start` or ``with``.

    Args:
        workers: number of jobs that run at the same time; each worker has two fork servers of
            about 15 MiB. None: one for each processor.
        min_tier: the weakest acceptable tier: ``strict``, ``bwrap`` or ``portable``
            (docs/sandbox.md).

    Raises:
        ConfigError: ``workers`` is below 1, or there is no such tier.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        min_tier: Literal["strict", "bwrap", "portable"] = "strict",
    ) -> None:
        if workers is not None and workers < 1:
            raise ConfigError(
                f"sandbox.workers={workers}: must be at least 1, or null for all processors"
            )
        check_tier(min_tier)
        self.workers = workers
        self.min_tier = min_tier
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._workers: list[ForkServerPair] = []
        self._finalizer = weakref.finalize(self, _close_all, self._workers, self._owner)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings only: a copy starts its own workers."""
        return _rebuild, (self.workers, self.min_tier)

    @functools.cached_property
    def tier(self) -> Tier:
        """Strongest tier of this machine.

        Raises:
            ConfigError: that tier is weaker than ``min_tier``.
        """
        return strongest(self.min_tier)

    def start(self) -> None:
        """Start the workers that do not run yet.

        Raises:
            ConfigError: this machine gives less than ``min_tier``.
            RlcompError: another process made this object, or a worker did not start.
        """
        self._start(self.workers or os.cpu_count() or 1)

    def _start(self, count: int) -> None:
        if os.getpid() != self._owner:
            raise RlcompError("another process made this sandbox: make a new one in this process")
        try:
            while len(self._workers) < count:
                self._workers.append(new_worker(self.tier))
        except BaseException:
            self.close()
            raise

    def map(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run many jobs, ``workers`` at a time; equal jobs run once.

        Returns:
            The outcomes, in the order of the jobs.

        Raises:
            ConfigError: this machine gives less than ``min_tier``.
            RlcompError: another process made this object, or the sandbox failed twice at a job.
        """
        if not jobs:
            return []
        with self._lock:
            # A single job, such as a call of a tool, needs only one worker.
            self._start(min(len({*jobs}), self.workers or os.cpu_count() or 1))
            outcomes = Batch(self._workers, self.tier, jobs).run()
        return [outcomes[job] for job in jobs]

    def close(self) -> None:
        """End all workers; a later job starts new ones.

        The end of this process ends them too.
        """
        _close_all(self._workers, self._owner)

    def __enter__(self) -> Sandbox:
        self.start()
        return self


def _close_all(workers: list[ForkServerPair], owner: int) -> None:
    if os.getpid() == owner:  # a fork of the owner must not end the workers
        while workers:
            workers.pop().close()


def _rebuild(workers: int | None, min_tier: Tier) -> Sandbox:
    return Sandbox(workers=workers, min_tier=min_tier)
