"""Local runner of untrusted programs."""

from __future__ import annotations

import functools
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from rlcomp.errors import ConfigError, RlcompError
from rlcomp.sandbox.fork_server import ForkServerPair, start_pair
from rlcomp.sandbox.job import Job
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.sandbox.running_job import RunningJob, RunningProgram
from rlcomp.sandbox.tier import Tier, check_tier, find_strongest


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
        return functools.partial(Sandbox, workers=self.workers, min_tier=self.min_tier), ()

    @functools.cached_property
    def tier(self) -> Tier:
        """Strongest tier of this machine.

        Raises:
            ConfigError: this machine has no tier as strong as ``min_tier``.
        """
        return find_strongest(self.min_tier)

    def start(self) -> None:
        """Start the workers that do not run yet.

        Raises:
            ConfigError: this machine gives less than ``min_tier``.
            RlcompError: another process made this object, or a worker did not start.
        """
        self._start(self.workers or os.cpu_count() or 1)

    def _start(self, count: int) -> None:
        if os.getpid() != self._owner:
            raise RlcompError("this sandbox belongs to another process: make a new one")
        try:
            while len(self._workers) < count:
                self._workers.append(start_pair(self.tier))
        except BaseException:
            self.close()
            raise

    def map(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run many jobs, ``workers`` at a time; equal jobs run once.

        Returns:
            The outcomes, in the order of the jobs.

        Raises:
            ConfigError: this machine gives less than ``min_tier``.
            RlcompError: another process made this object, a worker did not start, or the sandbox
                failed twice at a job.
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

        The end of this process ends them too. In a fork of this process the call is a no-op.
        """
        _close_all(self._workers, self._owner)

    def __enter__(self) -> Sandbox:
        self.start()
        return self


def _close_all(workers: list[ForkServerPair], owner: int) -> None:
    if os.getpid() == owner:  # a fork of the owner must not end the workers
        while workers:
            workers.pop().close()


class Batch:
    """Distinct jobs, distributed to workers.

    Args:
        workers: workers that run the jobs; a failed worker is replaced in this list.
        tier: tier of new workers.
        jobs: the jobs; equal ones run once.
    """

    def __init__(self, workers: list[ForkServerPair], tier: Tier, jobs: Iterable[Job]) -> None:
        self.workers = workers
        self.tier = tier
        self.waiting_jobs = deque(dict.fromkeys(jobs))
        self.running_jobs: list[RunningJob] = []
        self.failed_once: set[Job] = set()
        self.outcomes: dict[Job, Outcome] = {}

    def run(self) -> dict[Job, Outcome]:
        """Run all jobs and return their outcomes by job.

        Raises:
            RlcompError: the sandbox itself failed twice at the same job, or a worker did not start.
        """
        try:
            while self.waiting_jobs or self.running_jobs:
                self._start()
                self._handle_ended()
                self._give_up_overdue()
        finally:
            for running_job in self.running_jobs:
                running_job.close()
        return self.outcomes

    def _start(self) -> None:
        busy = [running_job.worker for running_job in self.running_jobs]
        for worker in [idle for idle in self.workers if idle not in busy]:
            if self.waiting_jobs:
                job = self.waiting_jobs.popleft()
                try:
                    self.running_jobs.append(RunningJob(job, worker))
                except RlcompError as error:
                    self._retry(job, worker, error)

    def _handle_ended(self) -> None:
        """Wait for the end of a program or a deadline; record which programs have ended."""
        sockets = {
            socket.fileno(): (running_job, program)
            for running_job in self.running_jobs
            for socket, program in running_job.running_programs().items()
        }
        ready = select.poll()
        for file in sockets:
            ready.register(file, select.POLLIN)
        now = time.monotonic()
        seconds = max(0.0, min((job.deadline - now for job in self.running_jobs), default=0.0))
        for file, _ in ready.poll(1000 * seconds):
            self._end(*sockets[file])

    def _end(self, running_job: RunningJob, program: RunningProgram) -> None:
        if running_job not in self.running_jobs:  # the job's other program has just failed
            return
        try:
            is_complete = running_job.handle_end(program)
        except RlcompError as error:
            self._remove(running_job)
            self._retry(running_job.job, running_job.worker, error)
            return
        if is_complete:
            self.outcomes[running_job.job] = running_job.outcome()
            self._remove(running_job)

    def _give_up_overdue(self) -> None:
        """Give up jobs that the sandbox did not end in time, and replace their workers."""
        now = time.monotonic()
        for running_job in [job for job in self.running_jobs if job.deadline <= now]:
            self._remove(running_job)
            self._replace(running_job.worker)
            message = f"the sandbox could not end it after {running_job.job.limits.wall:g} s"
            self.outcomes[running_job.job] = Outcome("timeout", message)

    def _remove(self, running_job: RunningJob) -> None:
        self.running_jobs.remove(running_job)
        running_job.close()

    def _retry(self, job: Job, worker: ForkServerPair, error: RlcompError) -> None:
        """Queue a failed job once more, and replace its worker; raise a second failure."""
        if job in self.failed_once:
            raise error
        self.failed_once.add(job)
        self.waiting_jobs.appendleft(job)
        self._replace(worker)

    def _replace(self, worker: ForkServerPair) -> None:
        worker.close()
        self.workers[self.workers.index(worker)] = start_pair(self.tier)
