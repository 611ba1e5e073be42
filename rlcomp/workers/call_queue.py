"""Queue of the calls of one batch, with their retries and outcomes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcomp.workers.executor import RETRY_DELAYS, CallOutcome, ReturnedCall, outcome_of
from rlcomp.workers.function_call import TEMPORARY

_MESSAGE_SECONDS = 0.02  # mean duration of the calls of one message
_MAX_MESSAGE_CALLS = 32
_RETRY_SECONDS = 0.5  # time limit of the retry of a call that exceeded its time limit


@dataclass
class QueuedCall:
    """Call of a batch.

    Attributes:
        number: index of the call in its batch.
        arguments: values by parameter name.
        timeout: time limit of the call, in seconds.
        is_concurrent: whether the call runs beside others in one process.
        tries: number of times that the call was sent to a worker.
        is_retry: whether the call is retried alone after it exceeded its time limit.
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
        self.solo_retries: deque[QueuedCall] = deque()  # retries after a time-out, made at the end
        self.num_workers, self.concurrency = num_workers, concurrency
        self._outcomes: list[CallOutcome | None] = [None] * len(arguments)
        self.num_unfinished = len(arguments)
        self.previous_mean = previous_mean
        self.has_overrun = False
        self.one_per_message = False  # set once a slow call has delayed others
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
        return min((job.not_before for job in self.delayed_retries), default=None)

    def retries_only(self, running: Sequence[QueuedCall]) -> bool:
        """Return whether only retries after time-outs are unfinished."""
        return (
            not self.waiting and not self.delayed_retries and all(job.is_retry for job in running)
        )

    def take(self, running: Sequence[QueuedCall]) -> list[QueuedCall]:
        """Remove and return the calls of the next message; an empty list if no call may start now.

        ``running`` are the calls that were sent to workers and have no outcome.
        """
        now = time.monotonic()
        self.waiting.extend(job for job in self.delayed_retries if job.not_before <= now)
        self.delayed_retries = [job for job in self.delayed_retries if job.not_before > now]
        jobs: list[QueuedCall] = []
        if self.waiting:
            jobs = [self.waiting.popleft() for _ in range(self._message_size())]
        elif self.solo_retries and self.retries_only(running):
            jobs = [self.solo_retries.popleft()]
        for job in jobs:
            job.tries += 1
        return jobs

    def _message_size(self) -> int:
        """Return the number of calls of the next message; short calls share a message."""
        fair_share = -(-len(self.waiting) // self.num_workers)
        if self.concurrency > 1:
            return min(self.concurrency, fair_share)
        mean_seconds = self.mean_seconds
        if self.one_per_message or mean_seconds is None:
            return 1
        fitting = int(_MESSAGE_SECONDS / max(mean_seconds, 1e-9))
        return max(1, min(_MAX_MESSAGE_CALLS, fair_share, fitting))

    def record_reply(self, job: QueuedCall, reply: Sequence[Any]) -> None:
        """Record the outcome of a call, or queue the call again if it may be retried."""
        kind = reply[0]
        if kind == TEMPORARY and job.tries <= len(RETRY_DELAYS):
            job.not_before = time.monotonic() + RETRY_DELAYS[job.tries - 1]
            self.delayed_retries.append(job)
        elif kind == "time" and not job.is_retry:
            self._retry_alone(job, min(_RETRY_SECONDS, job.timeout))
        else:
            self._finish(job, reply)

    def record_death(self, jobs: Sequence[QueuedCall], reply: Sequence[Any]) -> None:
        """Record the death of a worker with unfinished calls, and the reply for the current call.

        The first call is the current one and has failed; waiting and concurrent calls are queued
        again.
        """
        self._end_worker(jobs, reply, self._finish)

    def record_overrun(self, jobs: Sequence[QueuedCall]) -> None:
        """Record that a worker was killed because its first call exceeded the time limit."""
        self.has_overrun = True
        reply = ("time", f"ran for more than {self.timeout:g} s", 0.0, ())
        self._end_worker(jobs, reply, self.record_reply)

    def _end_worker(
        self,
        jobs: Sequence[QueuedCall],
        reply: Sequence[Any],
        record: Callable[[QueuedCall, Sequence[Any]], None],
    ) -> None:
        if jobs and jobs[0].is_concurrent and not jobs[0].is_retry:
            for job in jobs:
                self._retry_alone(job, job.timeout)
            return
        for job in jobs[:1]:
            record(job, reply)
        self.take_back(jobs[1:])

    def take_back(self, jobs: Sequence[QueuedCall]) -> None:
        """Queue calls again that a worker received and did not start."""
        for job in reversed(jobs):
            job.tries -= 1
            self.waiting.appendleft(job)

    def _retry_alone(self, job: QueuedCall, timeout: float) -> None:
        job.is_retry, job.timeout = True, timeout
        self.solo_retries.append(job)

    def _finish(self, job: QueuedCall, reply: Sequence[Any]) -> None:
        outcome = outcome_of(reply, job.tries)
        if isinstance(outcome, ReturnedCall):
            self._seconds += outcome.seconds
            self._num_returned += 1
        self._outcomes[job.number] = outcome
        self.num_unfinished -= 1
