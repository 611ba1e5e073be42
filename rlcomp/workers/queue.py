"""The calls of one batch: which go out together, which again, and what came of each."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcomp.workers.call import TEMPORARY
from rlcomp.workers.calls import WAITS, Outcome, Scored, outcome_of

# Seconds that a message to a worker should be worth, and calls that it may hold.
_MESSAGE = 0.02
_MOST = 32
# Seconds that a call gets which overran its time, when the others are done.
_AGAIN = 0.5


@dataclass
class Job:
    """One call.

    Attributes:
        number: of the call in its batch.
        arguments: by name.
        timeout: its limit, in seconds.
        together: whether it runs beside others in one process.
        tries: how often it was handed out.
        again: whether this is its second chance, alone.
        after: when it may be handed out, on the clock of ``time.monotonic``.
    """

    number: int
    arguments: Mapping[str, object]
    timeout: float
    together: bool
    tries: int = 0
    again: bool = False
    after: float = 0.0


class Queue:
    """Calls that wait, and the outcomes of those that are over.

    Args:
        arguments: of each call.
        timeout: limit of a call, in seconds.
        share: between how many workers the calls are divided.
        concurrency: how many calls run at a time in one worker.
        usual: seconds of a call in the batch before; None: there was none.
    """

    def __init__(
        self,
        arguments: Sequence[Mapping[str, object]],
        *,
        timeout: float,
        share: int,
        concurrency: int,
        usual: float | None = None,
    ) -> None:
        together = concurrency > 1
        self.timeout = timeout
        self.waiting = deque(
            Job(number, each, timeout, together) for number, each in enumerate(arguments)
        )
        self.later: list[Job] = []  # failed temporarily
        self.alone: deque[Job] = deque()  # get a second chance at the end
        self.share, self.concurrency = share, concurrency
        self._outcomes: list[Outcome | None] = [None] * len(arguments)
        self.left = len(arguments)
        self.usual = usual
        self.any_overran = False
        self.careful = False  # one call a message, once a call has held up those behind it
        self._seconds, self._scored = 0.0, 0

    @property
    def done(self) -> bool:
        """Whether every call is over."""
        return not self.left

    @property
    def outcomes(self) -> list[Outcome]:
        """One a call, in order."""
        return [outcome for outcome in self._outcomes if outcome is not None]

    @property
    def mean_seconds(self) -> float | None:
        """What a call has taken, of those that returned, or in the batch before; None: unknown."""
        return self._seconds / self._scored if self._scored else self.usual

    @property
    def next_due(self) -> float | None:
        """When the next call may be tried again."""
        return min((job.after for job in self.later), default=None)

    def retries_only(self, running: Sequence[Job]) -> bool:
        """Whether only second chances are left."""
        return not self.waiting and not self.later and all(job.again for job in running)

    def take(self, running: Sequence[Job]) -> list[Job]:
        """The calls of the next message; none if all have to wait.

        Args:
            running: the calls that workers have.
        """
        now = time.monotonic()
        self.waiting.extend(job for job in self.later if job.after <= now)
        self.later = [job for job in self.later if job.after > now]
        jobs: list[Job] = []
        if self.waiting:
            jobs = [self.waiting.popleft() for _ in range(self._size())]
        elif self.alone and self.retries_only(running):
            jobs = [self.alone.popleft()]
        for job in jobs:
            job.tries += 1
        return jobs

    def _size(self) -> int:
        """How many calls a message holds: short ones share the price of it."""
        fair = -(-len(self.waiting) // self.share)
        if self.concurrency > 1:
            return min(self.concurrency, fair)
        usual = self.mean_seconds
        return (
            1
            if self.careful or usual is None
            else max(1, min(_MOST, fair, int(_MESSAGE / max(usual, 1e-9))))
        )

    def answered(self, job: Job, reply: Sequence[Any]) -> None:
        """A call is over, or has failed in a way that another try may mend."""
        kind = reply[0]
        if kind == TEMPORARY and job.tries <= len(WAITS):
            job.after = time.monotonic() + WAITS[job.tries - 1]
            self.later.append(job)
        elif kind == "time" and not job.again:
            self._again(job, min(_AGAIN, job.timeout))
        else:
            self._finish(job, reply)

    def lost(self, jobs: Sequence[Job], reply: Sequence[Any]) -> None:
        """A worker died: so did the call in hand; of several at a time nobody knows which."""
        self._end(jobs, reply, self._finish)

    def overran(self, jobs: Sequence[Job]) -> None:
        """A worker was killed because the call in hand ran for too long."""
        self.any_overran = True
        self._end(jobs, ("time", f"ran for more than {self.timeout:g} s", 0.0, ()), self.answered)

    def _end(
        self, jobs: Sequence[Job], reply: Sequence[Any], end: Callable[[Job, Sequence[Any]], None]
    ) -> None:
        if jobs and jobs[0].together and not jobs[0].again:
            for job in jobs:
                self._again(job, job.timeout)
            return
        for job in jobs[:1]:
            end(job, reply)
        self.take_back(jobs[1:])

    def take_back(self, jobs: Sequence[Job]) -> None:
        """Calls that were handed out, but not begun."""
        for job in reversed(jobs):
            job.tries -= 1
            self.waiting.appendleft(job)

    def _again(self, job: Job, timeout: float) -> None:
        job.again, job.timeout = True, timeout
        self.alone.append(job)

    def _finish(self, job: Job, reply: Sequence[Any]) -> None:
        outcome = outcome_of(reply, job.tries)
        if isinstance(outcome, Scored):
            self._seconds += outcome.seconds
            self._scored += 1
        self._outcomes[job.number] = outcome
        self.left -= 1
