"""Queue of the calls of one batch, with their retries and outcomes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcomp.workers.executor import RETRY_DELAYS, CallOutcome, ReturnedCall, outcome_of
from rlcomp.workers.function_call import TEMPORARY

# An order is a message to a worker with one or more calls (:mod:`rlcomp.workers.worker_loop`).
_ORDER_SECONDS = 0.02  # short calls share an order of about this duration
_MAX_ORDER_CALLS = 32  # maximum number of calls of an order
# Time limit of the retry of a call that exceeded its time limit, at most the call's own limit.
_RETRY_SECONDS = 0.5


@dataclass
class QueuedCall:
    """Call of a batch.

    Attributes:
        number: index of the call in its batch.
        arguments: values by parameter name.
        timeout: time limit of the call, in seconds.
        is_concurrent: whether the call runs beside others in one process.
        tries: number of times that the call was sent to a worker.
        is_retry: whether the call is retried alone, because it exceeded its time limit, or because
            a worker ended that ran it beside others.
        not_before: earliest time of the next try, on the clock of ``time.monotonic``.
    """

    number: int
    arguments: Mapping[str, object]
    timeout: float
    is_concurrent: bool
    tries: int = 0
    is_retry: bool = False
    not_before: float = 0.0


class CallQueue:
    """Queue of waiting calls, with the outcomes of finished calls.

    Args:
        arguments: arguments of each call, by parameter name.
        timeout: time limit of a call, in seconds.
        num_workers: number of workers that share the calls.
        concurrency: number of concurrent calls in one worker.
        previous_mean: mean seconds of a call in the previous batch; None: unknown.
    """

    def __init__(
        self,
        arguments: Sequence[Mapping[str, object]],
        *,
        timeout: float,
        num_workers: int,
        concurrency: int,
        previous_mean: float | None = None,
    ) -> None:
        is_concurrent = concurrency > 1
        self.timeout = timeout
        self.waiting = deque(
            QueuedCall(number, each, timeout, is_concurrent)
            for number, each in enumerate(arguments)
        )
        self.delayed_retries: list[QueuedCall] = []  # retries after a temporary failure
        self.solo_retries: deque[QueuedCall] = deque()  # calls with ``is_retry``, made at the end
        self.num_workers, self.concurrency = num_workers, concurrency
        self._outcomes: list[CallOutcome | None] = [None] * len(arguments)
        self.num_unfinished = len(arguments)
        self.previous_mean = previous_mean
        self.has_overrun = False  # whether a worker was killed because its call took too long
        self.one_per_order = False  # whether orders have one call, because a worker was stuck
        self._seconds, self._num_returned = 0.0, 0

    @property
    def finished(self) -> bool:
        """Return whether every call has an outcome."""
        return not self.num_unfinished

    @property
    def outcomes(self) -> list[CallOutcome]:
        """Return one outcome per call, in order."""
        return [outcome for outcome in self._outcomes if outcome is not None]

    @property
    def mean_seconds(self) -> float | None:
        """Return the mean seconds of returned calls, or of the previous batch; None if unknown."""
        return self._seconds / self._num_returned if self._num_returned else self.previous_mean

    @property
    def next_retry_time(self) -> float | None:
        """Return the earliest time of a delayed retry; None if none waits."""
        return min((call.not_before for call in self.delayed_retries), default=None)

    def retries_only(self, running: Sequence[QueuedCall]) -> bool:
        """Return whether only calls that are retried alone (``is_retry``) are unfinished."""
        return (
            not self.waiting and not self.delayed_retries and all(call.is_retry for call in running)
        )

    def take(self, running: Sequence[QueuedCall]) -> list[QueuedCall]:
        """Remove and return the calls of the next order; an empty list if no call may start now.

        ``running`` are the calls that were sent to workers and have no outcome.
        """
        now = time.monotonic()
        self.waiting.extend(call for call in self.delayed_retries if call.not_before <= now)
        self.delayed_retries = [call for call in self.delayed_retries if call.not_before > now]
        calls: list[QueuedCall] = []
        if self.waiting:
            calls = [self.waiting.popleft() for _ in range(self._order_size())]
        elif self.solo_retries and self.retries_only(running):
            calls = [self.solo_retries.popleft()]
        for call in calls:
            call.tries += 1
        return calls

    def _order_size(self) -> int:
        """Return the number of calls of the next order; short calls share an order."""
        fair_share = -(-len(self.waiting) // self.num_workers)
        if self.concurrency > 1:
            return min(self.concurrency, fair_share)
        mean_seconds = self.mean_seconds
        if self.one_per_order or mean_seconds is None:
            return 1
        fitting = int(_ORDER_SECONDS / max(mean_seconds, 1e-9))
        return max(1, min(_MAX_ORDER_CALLS, fair_share, fitting))

    def record_reply(self, call: QueuedCall, reply: Sequence[Any]) -> None:
        """Record the outcome of a call, or queue the call again if it may be retried."""
        kind = reply[0]
        if kind == TEMPORARY and call.tries <= len(RETRY_DELAYS):
            call.not_before = time.monotonic() + RETRY_DELAYS[call.tries - 1]
            self.delayed_retries.append(call)
        elif kind == "time" and not call.is_retry:
            self._retry_alone(call, min(_RETRY_SECONDS, call.timeout))
        else:
            self._finish(call, reply)

    def record_death(self, calls: Sequence[QueuedCall], reply: Sequence[Any]) -> None:
        """Record the death of a worker with unfinished calls.

        The first call was running: it fails with the reply. The other calls are queued again.
        Concurrent calls were all running: each is retried alone.
        """
        self._end_worker(calls, reply, self._finish)

    def record_overrun(self, calls: Sequence[QueuedCall]) -> None:
        """Record that a worker was killed because its running call exceeded the time limit.

        The call is retried once. The other calls are as in :meth:`record_death`.
        """
        self.has_overrun = True
        reply = ("time", f"ran for more than {self.timeout:g} s", 0.0, ())
        self._end_worker(calls, reply, self.record_reply)

    def _end_worker(
        self,
        calls: Sequence[QueuedCall],
        reply: Sequence[Any],
        record: Callable[[QueuedCall, Sequence[Any]], None],
    ) -> None:
        """Record the reply for the running call, and queue the other calls of the worker again."""
        if calls and calls[0].is_concurrent and not calls[0].is_retry:
            for call in calls:
                self._retry_alone(call, call.timeout)
            return
        for call in calls[:1]:
            record(call, reply)
        self.take_back(calls[1:])

    def take_back(self, calls: Sequence[QueuedCall]) -> None:
        """Queue calls again that a worker received but has not started."""
        for call in reversed(calls):
            call.tries -= 1
            self.waiting.appendleft(call)

    def _retry_alone(self, call: QueuedCall, timeout: float) -> None:
        call.is_retry, call.timeout = True, timeout
        self.solo_retries.append(call)

    def _finish(self, call: QueuedCall, reply: Sequence[Any]) -> None:
        outcome = outcome_of(reply, call.tries)
        if isinstance(outcome, ReturnedCall):
            self._seconds += outcome.seconds
            self._num_returned += 1
        self._outcomes[call.number] = outcome
        self.num_unfinished -= 1
