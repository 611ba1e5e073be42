"""Loop that distributes jobs to workers and waits for their ends."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Iterable

from rlcomp.errors import RlcompError
from rlcomp.sandbox.job import Job
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.running_job import ForkServerPair, RunningJob
from rlcomp.sandbox.running_program import RunningProgram
from rlcomp.sandbox.tier import Tier


def new_worker(tier: Tier) -> ForkServerPair:
    """Start a worker and return it.

    Raises:
        RlcompError: the worker does not start.
    """
    worker = ForkServerPair(tier)
    if reason := worker.refusal():
        worker.close()
        raise RlcompError(f"a fork server of the sandbox did not start: {reason}")
    return worker


class Batch:
    """Batch of distinct jobs.

    Args:
        workers: workers that run the jobs; a failed worker is replaced in this list.
        tier: tier of replaced workers.
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
            RlcompError: the sandbox itself failed twice at the same job.
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
        for worker in [each for each in self.workers if each not in busy]:
            if self.waiting_jobs:
                job = self.waiting_jobs.popleft()
                try:
                    self.running_jobs.append(RunningJob(job, worker))
                except RlcompError as error:
                    self._retry(job, worker, error)

    def _handle_ended(self) -> None:
        """Wait until a program ends, and record the ends of all ended programs."""
        sockets = {
            socket.fileno(): (running_job, program)
            for running_job in self.running_jobs
            for socket, program in running_job.running_programs().items()
        }
        ready = select.poll()
        for file in sockets:
            ready.register(file, select.POLLIN)
        for file, _ in ready.poll(1000 * self._seconds_to_deadline()):
            self._end(*sockets[file])

    def _seconds_to_deadline(self) -> float:
        now = time.monotonic()
        return max(0.0, min((each.deadline - now for each in self.running_jobs), default=0.0))

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
        for running_job in [each for each in self.running_jobs if each.deadline <= now]:
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
        self.workers[self.workers.index(worker)] = new_worker(self.tier)
