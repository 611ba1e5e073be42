"""Worker process together with its unanswered calls."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence

from rlcomp.arguments import Unbuilt
from rlcomp.workers.calls import Reply, unloadable
from rlcomp.workers.process import WorkerProcess
from rlcomp.workers.queue import Job, Queue

# Seconds that a worker may take to import a function or to make its object.
LOAD_SECONDS = 60.0
# Seconds that a call may go on beyond its limit if the worker itself cancels it (async).
_GRACE = 0.5
# A worker is stuck in a call that takes this many times as long as others. Extra workers then take
# its place, so that a few endless loops do not delay the good calls.
_STUCK = 20.0
_STUCK_SECONDS = (0.25, 0.5)


class Worker:
    """A worker and its jobs."""

    def __init__(self, memory_limit: int, output_limit: int) -> None:
        self.process = WorkerProcess(memory_limit, output_limit)
        self.known: set[str] = set()
        self.jobs: list[Job] = []  # sent and not answered; the running one comes first
        self.gave_way = False
        self.loading = ""
        self.since = self.deadline = 0.0

    def begin(self, order: Mapping[str, object], jobs: list[Job]) -> None:
        """Send jobs, all with the limit of the first."""
        self.jobs = jobs
        function = str(order["function"])
        self.loading = "" if function in self.known else function
        calls = [(job.number, job.arguments) for job in jobs]
        with contextlib.suppress(OSError):  # it is gone; the next request for replies will notice
            self.process.send({**order, "timeout": jobs[0].timeout, "calls": calls})
        self._arm()

    def _arm(self) -> None:
        self.since = time.monotonic()
        limit = LOAD_SECONDS
        if not self.loading and self.jobs:
            limit = self.jobs[0].timeout + (_GRACE if self.jobs[0].together else 0.0)
        self.deadline = self.since + limit

    def answer(self, reply: Reply, queue: Queue, function: str | Unbuilt) -> None:
        """Handle a reply: a function was loaded, or a call is over."""
        if reply[0] == "unloadable":
            raise unloadable(function, reply[1])
        if reply[0] == "loaded":
            self.known.add(self.loading)
            self.loading = ""
            self._arm()
            return
        job = next((job for job in self.jobs if job.number == reply[0]), None)
        if job is None:
            return  # another worker makes that call
        self.jobs.remove(job)
        queue.answered(job, reply[1:])
        if not job.together:
            self._arm()

    def give_way(self, queue: Queue) -> None:
        """Give the calls behind the current one to others, and lower a stuck worker's priority.

        The worker would go on with those calls when it is free again, so it is ended then.
        """
        if self.gave_way or self.jobs[0].together:
            return
        self.gave_way = queue.careful = True
        queue.restore_point(self.jobs[1:])
        self.jobs = self.jobs[:1]
        if queue.mean_seconds is not None:  # others are quick: this one is the exception
            self.process.lower_priority()

    def stuck(self, queue: Queue) -> bool:
        """Return whether its call takes much longer than others."""
        usual = queue.mean_seconds
        patience = max(_STUCK_SECONDS[0], min(_STUCK_SECONDS[1], self.jobs[0].timeout / 8))
        if usual is not None:
            patience = max(_STUCK_SECONDS[0], _STUCK * usual)
        return not self.loading and time.monotonic() - self.since > patience


def some_stuck(busy: Sequence[Worker], queue: Queue) -> bool:
    """Return whether other workers should take the place of stuck ones.

    Not if calls exceed their limit and none returns: then all are slow, and more at a time would
    make them slower.
    """
    if queue.any_overran and queue.mean_seconds is None:
        return False
    return any(worker.stuck(queue) for worker in busy)
