"""Worker process of a pool, with the calls that it has received."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence

from rlcomp.arguments import Unbuilt
from rlcomp.workers.call_queue import CallQueue, QueuedCall
from rlcomp.workers.executor import Reply, loading_error
from rlcomp.workers.worker_process import WorkerProcess

# Time limit in seconds for importing a function or instantiating a class.
LOAD_SECONDS = 60.0
# Seconds beyond the time limit of an async call, which the worker itself cancels.
_GRACE_SECONDS = 0.5
# A worker is stuck if its call takes this many times the mean duration of a call. Extra workers
# then take over, so that a few endless loops do not delay other calls.
_STUCK_RATIO = 20.0
# A worker is never stuck before the first number of seconds. While the mean duration is unknown,
# it is stuck after an eighth of its time limit, at most after the second number of seconds.
_STUCK_SECONDS = (0.25, 0.5)


class PoolWorker:
    """Worker process and its unfinished calls.

    Args:
        memory_limit: limit of the address space, in bytes.
        output_limit: maximum number of characters that a call prints, and of its result.
    """

    def __init__(self, memory_limit: int, output_limit: int) -> None:
        self.process = WorkerProcess(memory_limit, output_limit)
        self.loaded_functions: set[str] = set()
        self.jobs: list[QueuedCall] = []  # sent and unfinished; the first one is running
        self.is_replaced = False
        self.loading = ""
        self.call_start = self.deadline = 0.0

    def send_calls(self, order: Mapping[str, object], jobs: list[QueuedCall]) -> None:
        """Send calls to the worker; all get the time limit of the first one."""
        self.jobs = jobs
        function = str(order["function"])
        self.loading = "" if function in self.loaded_functions else function
        calls = [(job.number, job.arguments) for job in jobs]
        with contextlib.suppress(OSError):  # the worker has ended; reading its replies reports this
            self.process.send({**order, "timeout": jobs[0].timeout, "calls": calls})
        self._start_clock()

    def _start_clock(self) -> None:
        self.call_start = time.monotonic()
        limit = LOAD_SECONDS
        if not self.loading and self.jobs:
            limit = self.jobs[0].timeout + (_GRACE_SECONDS if self.jobs[0].is_concurrent else 0.0)
        self.deadline = self.call_start + limit

    def handle_reply(self, reply: Reply, queue: CallQueue, function: str | Unbuilt) -> None:
        """Record a loaded function or the outcome of a call.

        Raises:
            ConfigError: the worker could not load the function.
        """
        if reply[0] == "unloadable":
            raise loading_error(function, reply[1])
        if reply[0] == "loaded":
            self.loaded_functions.add(self.loading)
            self.loading = ""
            self._start_clock()
            return
        job = next((job for job in self.jobs if job.number == reply[0]), None)
        if job is None:
            return  # the call was given to another worker
        self.jobs.remove(job)
        queue.record_reply(job, reply[1:])
        if not job.is_concurrent:
            self._start_clock()

    def release_waiting_calls(self, queue: CallQueue) -> None:
        """Queue the calls behind the current one again, and lower the worker's priority.

        The pool ends the worker after its current call, because it would still make those calls.
        """
        if self.is_replaced or self.jobs[0].is_concurrent:
            return
        self.is_replaced = queue.one_per_message = True
        queue.take_back(self.jobs[1:])
        self.jobs = self.jobs[:1]
        # If other calls return in time, this one is the exception.
        if queue.mean_seconds is not None:
            self.process.lower_priority()

    def is_stuck(self, queue: CallQueue) -> bool:
        """Return whether the current call takes much longer than others."""
        mean_seconds = queue.mean_seconds
        patience = max(_STUCK_SECONDS[0], min(_STUCK_SECONDS[1], self.jobs[0].timeout / 8))
        if mean_seconds is not None:
            patience = max(_STUCK_SECONDS[0], _STUCK_RATIO * mean_seconds)
        return not self.loading and time.monotonic() - self.call_start > patience


def any_stuck(busy: Sequence[PoolWorker], queue: CallQueue) -> bool:
    """Return whether extra workers should start because a worker is stuck.

    If calls exceed their time limit and none returns, all calls are slow, and extra workers would
    make them slower. Then the result is False.
    """
    if queue.has_overrun and queue.mean_seconds is None:
        return False
    return any(worker.is_stuck(queue) for worker in busy)
