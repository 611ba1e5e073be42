"""Admission under schedule ``free``: which groups are begun, where they are, which are consumed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
D = TypeVar("D")
# A group: number of its request, place of its prompt.
Name = tuple[int, int]


@dataclass
class Admission:
    """Pace of rollouts: a group is begun while not too many rows are ahead of the learner.

    ``started + group <= (version + H + 1) * rows`` with ``version`` the updates so far and ``rows``
    those of a step. Where steps differ in size, the right side is the sum over the steps asked for.

    Attributes:
        staleness: ``H``.
        allowed: rows that may have been started by now.
        started: rows that have been.

    Source:
        Fu et al. 2025 (AReaL), arXiv:2505.24298, eq. 3.
    """

    staleness: int
    allowed: int = 0
    started: int = 0

    def step(self, rows: int) -> None:
        """A step consumes so many rows; the first one is allowed those of ``H`` more."""
        self.allowed += rows * (1 if self.allowed else self.staleness + 1)

    def admits(self, group: int) -> bool:
        """Whether a group of so many rows may be started."""
        return self.started + group <= self.allowed

    def start(self, group: int) -> None:
        """A group is started."""
        self.started += group


@dataclass
class Pool(Generic[T, D]):
    """Groups on their way: those that wait to be begun, that workers have, and that are done.

    Each is in one place, so that none is lost and none is consumed twice, whatever dies.

    Attributes:
        workers: how many.
        waiting: not begun, in order.
        under_way: of each worker, what it has, in the order it was handed over.
        done: in the order in which they came.
    """

    workers: int
    waiting: deque[tuple[Name, T]] = field(default_factory=deque)
    under_way: list[dict[Name, T]] = field(default_factory=list)
    done: dict[Name, D] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.under_way = [{} for _ in range(self.workers)]

    def hand_over(self) -> tuple[int, T]:
        """The next group, and the worker that has the fewest: it has it from now on."""
        worker = min(range(self.workers), key=lambda one: len(self.under_way[one]))
        name, group = self.waiting.popleft()
        self.under_way[worker][name] = group
        return worker, group

    def come_back(self, worker: int, name: Name, made: D) -> None:
        """A worker has completed a group."""
        del self.under_way[worker][name]
        self.done[name] = made

    def take(self, count: int) -> list[D]:
        """The groups that were done first, in the order in which they were asked for."""
        first = sorted(list(self.done)[:count])
        return [self.done.pop(name) for name in first]

    def unfinished(self) -> list[tuple[Name, T]]:
        """All that is not done, in the order in which it was asked for."""
        every = [*self.waiting, *(each for has in self.under_way for each in has.items())]
        return sorted(every, key=lambda each: each[0])
