"""The loop that distributes jobs to workers and waits for all of them at once."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Iterable

from rlcomp.errors import RlcompError
from rlcomp.sandbox.job import Job
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.running import Running, Worker
from rlcomp.sandbox.started import Started
from rlcomp.sandbox.tier import Tier


def new_worker(tier: Tier) -> Worker:
    """Start a worker and return it.

    Raises:
        RlcompError: it does not start.
    """
    worker = Worker(tier)
    if reason := worker.refusal():
        worker.close()
        raise RlcompError(f"a fork server of the sandbox did not start: {reason}")
    return worker


class Batch:
    """Distinct jobs, run once each.

    Args:
        workers: run the jobs; a failed worker is replaced in this list.
        tier: tier of a replacement.
        jobs: the jobs to run.
    """

    def __init__(self, workers: list[Worker], tier: Tier, jobs: Iterable[Job]) -> None:
        self.workers = workers
        self.tier = tier
        self.waiting = deque(dict.fromkeys(jobs))
        self.running: list[Running] = []
        self.failed_once: set[Job] = set()
        self.outcomes: dict[Job, Outcome] = {}

    def run(self) -> dict[Job, Outcome]:
        """Run all jobs and return their outcomes.

        Raises:
            RlcompError: the sandbox itself failed twice at the same job.
        """
        try:
            while self.waiting or self.running:
                self._start()
                self._take()
                self._overdue()
        finally:
            for running in self.running:
                running.close()
        return self.outcomes

    def _start(self) -> None:
        busy = [running.worker for running in self.running]
        for worker in [each for each in self.workers if each not in busy]:
            if self.waiting:
                job = self.waiting.popleft()
                try:
                    self.running.append(Running(job, worker))
                except RlcompError as error:
                    self._retry(job, worker, error)

    def _take(self) -> None:
        """Wait until a program ends, and take all that have ended."""
        sockets = {
            socket.fileno(): (running, program)
            for running in self.running
            for socket, program in running.waiting().items()
        }
        ready = select.poll()
        for file in sockets:
            ready.register(file, select.POLLIN)
        for file, _ in ready.poll(1000 * self._patience()):
            self._end(*sockets[file])

    def _patience(self) -> float:
        now = time.monotonic()
        return max(0.0, min((each.deadline - now for each in self.running), default=0.0))

    def _end(self, running: Running, program: Started) -> None:
        if running not in self.running:  # its other program has failed in this round
            return
        try:
            done = running.done(program)
        except RlcompError as error:
            self._drop(running)
            self._retry(running.job, running.worker, error)
            return
        if done:
            self.outcomes[running.job] = running.outcome()
            self._drop(running)

    def _overdue(self) -> None:
        """Give up jobs that even their first process did not end in time."""
        now = time.monotonic()
        for running in [each for each in self.running if each.deadline <= now]:
            self._drop(running)
            self._replace(running.worker)
            message = f"not even its jail ended it after {running.job.limits.wall:g} s"
            self.outcomes[running.job] = Outcome("timeout", message)

    def _drop(self, running: Running) -> None:
        self.running.remove(running)
        running.close()

    def _retry(self, job: Job, worker: Worker, error: RlcompError) -> None:
        """Run a job once more with a new worker: the machine may be at fault, not the job."""
        if job in self.failed_once:
            raise error
        self.failed_once.add(job)
        self.waiting.appendleft(job)
        self._replace(worker)

    def _replace(self, worker: Worker) -> None:
        worker.close()
        self.workers[self.workers.index(worker)] = new_worker(self.tier)
