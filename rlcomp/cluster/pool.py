"""Admission under schedule ``free``: the start, the location and the consumption of groups."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
D = TypeVar("D")
# Name of a group: number of its request, index of its prompt.
Name = tuple[int, int]


@dataclass
class Admission:
    """Pace of rollouts: a group may start unless too many rows are ahead of the learner.

    ``started + group <= (version + H + 1) * rows``. ``version`` is the number of updates so far,
    ``rows`` the rows of a step. If steps differ in size, the right side is the sum over the
    requested steps.

    Attributes:
        staleness: ``H``.
        allowed: rows that may have been started by now.
        started: rows that have been started.

    Source:
        Fu et al. 2025 (AReaL), arXiv:2505.24298, eq. 3.
    """

    staleness: int
    allowed: int = 0
    started: int = 0

    def step(self, rows: int) -> None:
        """Allow the rows of a step; the first step also allows the rows of ``H`` further steps."""
        self.allowed += rows * (1 if self.allowed else self.staleness + 1)

    def admits(self, group: int) -> bool:
        """Return whether a group of so many rows may be started."""
        return self.started + group <= self.allowed

    def start(self, group: int) -> None:
        """Count a group as started."""
        self.started += group


@dataclass
class Pool(Generic[T, D]):
    """Groups on their way: waiting, at a worker, or done.

    Each group is in one place, so that none is lost or consumed twice when a worker dies.

    Attributes:
        workers: their number.
        waiting: groups that are not begun, in order.
        under_way: groups of each worker, in the order of their assignment.
        done: in the order of completion.
    """

    workers: int
    waiting: deque[tuple[Name, T]] = field(default_factory=deque)
    under_way: list[dict[Name, T]] = field(default_factory=list)
    done: dict[Name, D] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.under_way = [{} for _ in range(self.workers)]

    def hand_over(self) -> tuple[int, T]:
        """Assign the next group to the worker with the fewest groups; return both."""
        worker = min(range(self.workers), key=lambda one: len(self.under_way[one]))
        name, group = self.waiting.popleft()
        self.under_way[worker][name] = group
        return worker, group

    def come_back(self, worker: int, name: Name, result: D) -> None:
        """Take a completed group from a worker."""
        del self.under_way[worker][name]
        self.done[name] = result

    def take(self, count: int) -> list[D]:
        """Return the groups that were done first, in the order of their requests."""
        first = sorted(list(self.done)[:count])
        return [self.done.pop(name) for name in first]

    def unfinished(self) -> list[tuple[Name, T]]:
        """Return all groups that are not done, in the order of their requests."""
        every = [*self.waiting, *(each for has in self.under_way for each in has.items())]
        return sorted(every, key=lambda each: each[0])
