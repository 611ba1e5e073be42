"""Reward pool: calls in worker processes, each under limits of time, memory and output."""

from __future__ import annotations

import contextlib
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
from rlcomp.workers.busy_worker import LOAD_SECONDS, Worker, some_stuck
from rlcomp.workers.calls import Outcome, described, unloadable
from rlcomp.workers.queue import Queue

# Extra workers that take the place of stuck ones: a few endless loops must not delay good calls.
_EXTRA = 6
# Longest wait: a worker may be gone while a process that it forked keeps its channel open.
_LOOK = 0.1


class WorkerPool(metaclass=Checked):
    """Pool of worker processes that can be killed; against mistakes, not against malice.

    The workers start with the first call and end with the run. If a worker dies, or is killed
    because its call exceeded a limit, only that call is lost. A call that exceeded its time is made
    once more when the others are done, for at most half a second: on a busy machine, only the limit
    of time can make two runs differ.

    Args:
        num_workers: processes; null: one for each processor.
        memory_gib: limit of the address space of each.
        output_limit: characters that a call may print, and of its result.
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
        self._workers: list[Worker] = []
        self._killed: list[Worker] = []  # may not be gone yet: this takes long on a busy machine
        self._usual: dict[str, float | None] = {}  # seconds of a call, by function
        self._end = weakref.finalize(self, _kill, self._workers, self._killed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a copy with the same limits, and workers of its own."""
        return _pool, (self.num_workers, self.memory_gib, self.output_limit)

    def map(
        self,
        function: str | Unbuilt,
        arguments: Sequence[Mapping[str, object]],
        *,
        timeout: float,
        concurrency: int = 1,
        whole_batch: bool = False,
    ) -> list[Outcome]:
        """Return one outcome per call, in order: :meth:`rlcomp.workers.calls.Calls.map`.

        Raises:
            ConfigError: the function cannot be imported, or its object cannot be made.
        """
        wanted = self.num_workers or os.cpu_count() or 1
        order = {"function": described(function), "whole_batch": whole_batch}
        queue = Queue(
            arguments,
            timeout=timeout,
            share=wanted,
            concurrency=concurrency,
            usual=self._usual.get(str(order["function"])),
        )
        with self._lock:
            try:
                while not queue.done:
                    self._hand_out(queue, order, wanted)
                    self._receive(queue, function)
                    self._kill_overrun(queue, function)
            except BaseException:
                self.close()
                raise
            for worker in self._workers[wanted:]:
                self._drop(worker)
            self._usual[str(order["function"])] = queue.mean_seconds
        return queue.outcomes

    def close(self) -> None:
        """End the workers; a later call starts new ones."""
        _kill(self._workers, self._killed)

    def _hand_out(self, queue: Queue, order: Mapping[str, object], wanted: int) -> None:
        busy = [worker for worker in self._workers if worker.jobs]
        for worker in [*self._workers]:
            if not worker.jobs and worker.process.exited():
                self._drop(worker)
        idle = [worker for worker in self._workers if not worker.jobs]
        places = wanted - len(busy)
        for worker in busy:
            if worker.stuck(queue):
                worker.give_way(queue)
        while True:
            running = [job for worker in busy for job in worker.jobs]
            extra = _EXTRA if queue.retries_only(running) or some_stuck(busy, queue) else 0
            if places + extra <= 0 or not (jobs := queue.take(running)):
                return
            worker = idle.pop() if idle else self._start()
            worker.begin(order, jobs)
            busy.append(worker)
            places -= 1

    def _start(self) -> Worker:
        self._workers.append(Worker(int(self.memory_gib * 2**30), self.output_limit))
        return self._workers[-1]

    def _receive(self, queue: Queue, function: str | Unbuilt) -> None:
        with selectors.DefaultSelector() as ready:
            for worker in self._workers:
                ready.register(worker.process.channel, selectors.EVENT_READ)
            ready.select(timeout=self._until_next(queue))
        for worker in [*self._workers]:
            replies, alive = worker.process.replies()
            for reply in replies:
                worker.answer(reply, queue, function)
            if worker.gave_way and not worker.jobs:
                self._drop(worker)
            elif not alive:
                self._died(worker, queue, function)

    def _until_next(self, queue: Queue) -> float:
        """Return the seconds until the next deadline."""
        due = [worker.deadline for worker in self._workers if worker.jobs]
        due += [queue.next_due] if queue.next_due is not None else []
        return max(0.0, min([_LOOK, *(each - time.monotonic() for each in due)]))

    def _died(self, worker: Worker, queue: Queue, function: str | Unbuilt) -> None:
        self._drop(worker)
        if not worker.jobs:
            return None
        code = worker.process.wait()
        if worker.process.garbled:
            why = "a call wrote into the channel of its worker process, which was ended"
        elif code >= 0:
            why = f"its process ended with exit code {code}"
        else:
            why = f"its process died of signal {-code} ({signal.Signals(-code).name})"
        if worker.loading and worker.known:  # another worker will report
            return queue.restore_point(worker.jobs)
        if worker.loading:
            raise unloadable(function, why)
        kind = "time" if -code == signal.SIGXCPU and not worker.process.garbled else "died"
        return queue.lost(worker.jobs, (kind, why, 0.0, ()))

    def _kill_overrun(self, queue: Queue, function: str | Unbuilt) -> None:
        now = time.monotonic()
        for worker in [each for each in self._workers if each.jobs and each.deadline < now]:
            self._drop(worker)
            if worker.loading:
                raise unloadable(function, f"importing it takes more than {LOAD_SECONDS:g} s")
            queue.overran(worker.jobs)

    def _drop(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.process.kill()
        self._killed[:] = [each for each in (*self._killed, worker) if not each.process.gone()]


@runtime_checkable
class EndsWithRun(Protocol):
    """Object that holds processes which end with the run.

    Attributes:
        ends_with_run: true.
    """

    ends_with_run: bool

    def close(self) -> None:
        """End the processes."""
        ...


@contextlib.contextmanager
def closing(nodes: Iterable[object]) -> Iterator[None]:
    """Close the pools and sandboxes among nodes at the end of a context, also after an error."""
    try:
        yield
    finally:
        for node in nodes:
            if isinstance(node, (WorkerPool, Sandbox, EndsWithRun)):
                node.close()


def _kill(workers: list[Worker], killed: list[Worker]) -> None:
    while workers:
        killed.append(workers.pop())
        killed[-1].process.kill()
    while killed:
        killed.pop().process.wait()


def _pool(num_workers: int | None, memory_gib: float, output_limit: int) -> WorkerPool:
    return WorkerPool(num_workers=num_workers, memory_gib=memory_gib, output_limit=output_limit)
