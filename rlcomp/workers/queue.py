"""Queue of the calls of one batch: messages, retries and outcomes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcomp.workers.call import TEMPORARY
from rlcomp.workers.calls import WAITS, Outcome, Scored, outcome_of

# Seconds that the calls of a message should take, and the most calls in it.
_MESSAGE = 0.02
_MOST = 32
# Limit in seconds of the second try of a call that exceeded its time.
_AGAIN = 0.5


@dataclass
class Job:
    """One call.

    Attributes:
        number: index of the call in its batch.
        arguments: by name.
        timeout: its limit, in seconds.
        together: whether it runs beside others in one process.
        tries: number of times it was handed out.
        again: whether this is its second try, alone.
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
    """Calls that wait, and the outcomes of finished calls.

    Args:
        arguments: of each call.
        timeout: limit of a call, in seconds.
        share: number of workers that the calls are divided between.
        concurrency: number of concurrent calls in one worker.
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
        self.alone: deque[Job] = deque()  # get a second try at the end
        self.share, self.concurrency = share, concurrency
        self._outcomes: list[Outcome | None] = [None] * len(arguments)
        self.left = len(arguments)
        self.usual = usual
        self.any_overran = False
        self.careful = False  # one call a message, once a call has delayed those behind it
        self._seconds, self._scored = 0.0, 0

    @property
    def done(self) -> bool:
        """Return whether every call is over."""
        return not self.left

    @property
    def outcomes(self) -> list[Outcome]:
        """Return one outcome per call, in order."""
        return [outcome for outcome in self._outcomes if outcome is not None]

    @property
    def mean_seconds(self) -> float | None:
        """Return the mean seconds of returned calls, or of the batch before; None if unknown."""
        return self._seconds / self._scored if self._scored else self.usual

    @property
    def next_due(self) -> float | None:
        """Return when the next call may be tried again."""
        return min((job.after for job in self.later), default=None)

    def retries_only(self, running: Sequence[Job]) -> bool:
        """Return whether only second tries are left."""
        return not self.waiting and not self.later and all(job.again for job in running)

    def take(self, running: Sequence[Job]) -> list[Job]:
        """Return the calls of the next message; none if all have to wait.

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
        """Return how many calls a message holds: short ones share its cost."""
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
        """Record that a call is over, or queue it again if it failed temporarily."""
        kind = reply[0]
        if kind == TEMPORARY and job.tries <= len(WAITS):
            job.after = time.monotonic() + WAITS[job.tries - 1]
            self.later.append(job)
        elif kind == "time" and not job.again:
            self._again(job, min(_AGAIN, job.timeout))
        else:
            self._finish(job, reply)

    def lost(self, jobs: Sequence[Job], reply: Sequence[Any]) -> None:
        """Record a worker's death: its current call failed; concurrent ones are tried again."""
        self._end(jobs, reply, self._finish)

    def overran(self, jobs: Sequence[Job]) -> None:
        """Record that a worker was killed because its current call ran for too long."""
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
        self.restore_point(jobs[1:])

    def restore_point(self, jobs: Sequence[Job]) -> None:
        """Take back calls that were handed out, but not begun."""
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
