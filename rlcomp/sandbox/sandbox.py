"""Sandbox: the local runner of untrusted programs."""

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
from rlcomp.sandbox.running import Worker
from rlcomp.sandbox.tier import Tier, known, strongest


class Sandbox(ProgramRunner):
    """Sandboxed execution of untrusted Python.

    Nothing is started or probed before the first job, :meth:`start` or ``with``: an unused object
    costs nothing.

    Args:
        workers: jobs at a time; each worker has two fork servers of about 15 MiB. None: one for
            each processor.
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
            raise ConfigError(f"sandbox.workers={workers}: at least 1, or null for all processors")
        known(min_tier)
        self.workers = workers
        self.min_tier = min_tier
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._end = weakref.finalize(self, _close_all, self._workers, self._owner)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings only: a copy has the same minimum tier and its own workers."""
        return _sandbox, (self.workers, self.min_tier)

    @functools.cached_property
    def tier(self) -> Tier:
        """The strongest tier of this machine.

        Raises:
            ConfigError: this machine gives less than ``min_tier``.
        """
        return strongest(self.min_tier)

    def start(self) -> None:
        """Start the workers that are not yet there.

        Raises:
            ConfigError: this machine gives less than ``min_tier``.
            RlcompError: it belongs to another process, or a worker did not start.
        """
        self._start(self.workers or os.cpu_count() or 1)

    def _start(self, count: int) -> None:
        if os.getpid() != self._owner:
            raise RlcompError("this sandbox belongs to another process: make one here")
        try:
            while len(self._workers) < count:
                self._workers.append(new_worker(self.tier))
        except BaseException:
            self.close()
            raise

    def map(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run many jobs, as many at a time as there are workers; each distinct one once.

        Returns:
            The outcomes, in the order of the jobs.

        Raises:
            ConfigError: this machine gives less than ``min_tier``.
            RlcompError: it belongs to another process, or failed itself twice at the same job.
        """
        if not jobs:
            return []
        with self._lock:
            # Single jobs, such as calls of a tool, need one worker only.
            self._start(min(len({*jobs}), self.workers or os.cpu_count() or 1))
            outcomes = Batch(self._workers, self.tier, jobs).run()
        return [outcomes[job] for job in jobs]

    def close(self) -> None:
        """End all workers and their processes. A later job starts new ones.

        The end of this process ends them too.
        """
        _close_all(self._workers, self._owner)

    def __enter__(self) -> Sandbox:
        self.start()
        return self


def _close_all(workers: list[Worker], owner: int) -> None:
    if os.getpid() == owner:  # a fork of the owner must not end them
        while workers:
            workers.pop().close()


def _sandbox(workers: int | None, min_tier: Tier) -> Sandbox:
    return Sandbox(workers=workers, min_tier=min_tier)
