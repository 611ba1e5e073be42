"""Pool of worker processes that make calls under limits of time, memory and output."""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import signal
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from rlcomp.arguments import Checked, PositiveFloat, PositiveInt, Unbuilt
from rlcomp.sandbox.sandbox import Sandbox
from rlcomp.workers.call_queue import CallQueue
from rlcomp.workers.executor import CallOutcome, loading_error, serialize_function
from rlcomp.workers.pool_worker import LOAD_SECONDS, PoolWorker, any_stuck

# Maximum number of extra workers while others are stuck, because endless loops must not delay other
# calls; also while only retries remain.
_EXTRA_WORKERS = 6
# Longest wait for a reply, in seconds. The pool must poll: a process that a worker forked can keep
# the channel open after the worker has ended.
_POLL_SECONDS = 0.1


class WorkerPool(metaclass=Checked):
    """Executor that makes calls in worker processes.

    It protects a run from mistakes in functions, not from malice. The workers start with the first
    call and end with the run. If a worker dies or is killed, only its current call fails. A call
    that exceeded its time limit is retried once after all other calls, for at most half a second.
    So a busy machine makes two runs differ only by calls that are slow twice.

    Args:
        num_workers: number of worker processes; null: one for each processor.
        memory_gib: limit of the address space of each worker, in GiB.
        output_limit: maximum number of characters that a call prints, and of its result.
    """

    def __init__(
        self,
        *,
        num_workers: PositiveInt | None = None,
        memory_gib: PositiveFloat = 4.0,
        output_limit: PositiveInt = 1_000_000,
    ) -> None:
        self.num_workers = num_workers
        self.memory_gib = memory_gib
        self.output_limit = output_limit
        self._lock = threading.Lock()
        self._workers: list[PoolWorker] = []
        self._killed: list[PoolWorker] = []  # killed workers that may still be ending
        self._mean_seconds: dict[str, float | None] = {}  # mean seconds of a call, by function
        self._end = weakref.finalize(self, _kill, self._workers, self._killed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings only: a copy starts its own workers."""
        names = ("num_workers", "memory_gib", "output_limit")
        return functools.partial(WorkerPool, **{name: getattr(self, name) for name in names}), ()

    def map(
        self,
        function: str | Unbuilt,
        arguments: Sequence[Mapping[str, object]],
        *,
        timeout: float,
        concurrency: int = 1,
        whole_batch: bool = False,
    ) -> list[CallOutcome]:
        """Make the calls and return their outcomes, in order.

        See :meth:`rlcomp.workers.executor.CallExecutor.map`.

        Raises:
            ConfigError: the function cannot be imported, or the class cannot be instantiated.
        """
        num_workers = self.num_workers or os.cpu_count() or 1
        order = {"function": serialize_function(function), "whole_batch": whole_batch}
        queue = CallQueue(
            arguments,
            timeout=timeout,
            num_workers=num_workers,
            concurrency=concurrency,
            previous_mean=self._mean_seconds.get(str(order["function"])),
        )
        with self._lock:
            try:
                while not queue.finished:
                    self._assign_calls(queue, order, num_workers)
                    self._receive(queue, function)
                    self._kill_overdue(queue, function)
            except BaseException:
                self.close()
                raise
            for worker in self._workers[num_workers:]:  # the extra workers
                self._kill_worker(worker)
            self._mean_seconds[str(order["function"])] = queue.mean_seconds
        return queue.outcomes

    def close(self) -> None:
        """End the workers; a later call starts new ones."""
        _kill(self._workers, self._killed)

    def _assign_calls(
        self, queue: CallQueue, order: Mapping[str, object], num_workers: int
    ) -> None:
        """Send waiting calls to idle workers; start up to ``num_workers`` and some extra ones."""
        busy = [worker for worker in self._workers if worker.calls]
        for worker in [*self._workers]:
            if not worker.calls and worker.process.has_exited():
                self._kill_worker(worker)
        idle = [worker for worker in self._workers if not worker.calls]
        free_slots = num_workers - len(busy)
        for worker in busy:
            if worker.is_stuck(queue):
                worker.release_waiting_calls(queue)
        while True:
            running = [call for worker in busy for call in worker.calls]
            extra_slots = (
                _EXTRA_WORKERS if queue.retries_only(running) or any_stuck(busy, queue) else 0
            )
            if free_slots + extra_slots <= 0 or not (calls := queue.take(running)):
                return
            worker = idle.pop() if idle else self._start()
            worker.send_calls(order, calls)
            busy.append(worker)
            free_slots -= 1

    def _start(self) -> PoolWorker:
        self._workers.append(PoolWorker(int(self.memory_gib * 2**30), self.output_limit))
        return self._workers[-1]

    def _receive(self, queue: CallQueue, function: str | Unbuilt) -> None:
        """Wait for replies, a deadline or a retry; record the replies and the deaths of workers."""
        with selectors.DefaultSelector() as ready:
            for worker in self._workers:
                ready.register(worker.process.channel, selectors.EVENT_READ)
            ready.select(timeout=self._seconds_to_deadline(queue))
        for worker in [*self._workers]:
            replies, alive = worker.process.read_replies()
            for reply in replies:
                worker.handle_reply(reply, queue, function)
            if worker.is_replaced and not worker.calls:
                self._kill_worker(worker)
            elif not alive:
                self._handle_death(worker, queue, function)

    def _seconds_to_deadline(self, queue: CallQueue) -> float:
        """Return the seconds until the next deadline or retry, at most ``_POLL_SECONDS``."""
        deadlines = [worker.deadline for worker in self._workers if worker.calls]
        deadlines += [queue.next_retry_time] if queue.next_retry_time is not None else []
        return max(
            0.0, min([_POLL_SECONDS, *(deadline - time.monotonic() for deadline in deadlines)])
        )

    def _handle_death(self, worker: PoolWorker, queue: CallQueue, function: str | Unbuilt) -> None:
        self._kill_worker(worker)
        if not worker.calls:
            return None
        code = worker.process.wait()
        if worker.process.has_invalid_output:
            reason = "a call wrote into the channel of its worker process, so the process was ended"
        elif code >= 0:
            reason = f"its process ended with exit code {code}"
        else:
            reason = f"its process died of signal {-code} ({signal.Signals(-code).name})"
        # The worker had loaded another function before: any cause is possible. Another worker will
        # load this function, and report an error of it.
        if worker.loading and worker.loaded_functions:
            return queue.take_back(worker.calls)
        if worker.loading:
            raise loading_error(function, reason)
        kind = (
            "time" if -code == signal.SIGXCPU and not worker.process.has_invalid_output else "died"
        )
        return queue.record_death(worker.calls, (kind, reason, 0.0, ()))

    def _kill_overdue(self, queue: CallQueue, function: str | Unbuilt) -> None:
        now = time.monotonic()
        for worker in [w for w in self._workers if w.calls and w.deadline < now]:
            self._kill_worker(worker)
            if worker.loading:
                raise loading_error(function, f"importing it takes more than {LOAD_SECONDS:g} s")
            queue.record_overrun(worker.calls)

    def _kill_worker(self, worker: PoolWorker) -> None:
        self._workers.remove(worker)
        worker.process.kill()
        # In place: the finalizer of the pool has this list.
        self._killed[:] = [w for w in (*self._killed, worker) if not w.process.reap()]


@runtime_checkable
class EndsWithRun(Protocol):
    """Interface of objects with processes that end with the run.

    Attributes:
        ends_with_run: true; distinguishes these objects from others with a method ``close``.
    """

    ends_with_run: bool

    def close(self) -> None:
        """End the processes."""
        ...


@contextlib.contextmanager
def closing(nodes: Iterable[object]) -> Iterator[None]:
    """Close some nodes at the end of the context, even after an error.

    These are pools, sandboxes and objects of :class:`EndsWithRun`.
    """
    try:
        yield
    finally:
        for node in nodes:
            if isinstance(node, (WorkerPool, Sandbox, EndsWithRun)):
                node.close()


def _kill(workers: list[PoolWorker], killed: list[PoolWorker]) -> None:
    """Kill the workers, and wait for the end of these and of the killed ones; empty both lists."""
    while workers:
        killed.append(workers.pop())
        killed[-1].process.kill()
    while killed:
        killed.pop().process.wait()
