"""Admission and bookkeeping of rollout groups under ``schedule=free``."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")  # group
D = TypeVar("D")  # result of a group
GroupKey = tuple[int, int]  # number of the request, index of the prompt in the request


@dataclass
class Admission:
    """Limit of rollouts ahead of the learner.

    A group may start if ``started + group <= (version + H + 1) * rows``. ``version`` is the number
    of updates so far, ``rows`` the rows of a step. If steps differ in size, the right side is the
    sum over the requested steps.

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
        """Return whether a group may be started; ``group`` is its number of rows."""
        return self.started + group <= self.allowed

    def start(self, group: int) -> None:
        """Count a group as started."""
        self.started += group


@dataclass
class Pool(Generic[T, D]):
    """Pool of rollout groups that are waiting, in flight at a worker, or done.

    Each group has exactly one of these states, so that no group is lost or consumed twice when a
    worker dies.

    Attributes:
        workers: number of workers.
        waiting: groups without a worker, in order.
        in_flight: groups of each worker, in the order of their assignment.
        done: results of the groups, in the order of completion.
    """

    workers: int
    waiting: deque[tuple[GroupKey, T]] = field(default_factory=deque)
    in_flight: list[dict[GroupKey, T]] = field(default_factory=list)
    done: dict[GroupKey, D] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.in_flight = [{} for _ in range(self.workers)]

    def assign(self) -> tuple[int, T]:
        """Assign the next group to the worker with the fewest groups; return both."""
        worker = min(range(self.workers), key=lambda number: len(self.in_flight[number]))
        key, group = self.waiting.popleft()
        self.in_flight[worker][key] = group
        return worker, group

    def complete(self, worker: int, key: GroupKey, result: D) -> None:
        """Mark a worker's group as done and store its result."""
        del self.in_flight[worker][key]
        self.done[key] = result

    def take(self, count: int) -> list[D]:
        """Remove the ``count`` earliest results; return them in the order of their requests."""
        first = sorted(list(self.done)[:count])
        return [self.done.pop(key) for key in first]

    def unfinished(self) -> list[tuple[GroupKey, T]]:
        """Return all groups that are not done, in the order of their requests."""
        groups = [*self.waiting, *(group for groups in self.in_flight for group in groups.items())]
        return sorted(groups, key=lambda group: group[0])
