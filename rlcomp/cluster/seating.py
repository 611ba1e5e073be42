"""Seating: which rows of which groups a worker samples now, and when a group is over."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from rlcomp.engine.seats import Seats
from rlcomp.interfaces.cluster import Free


@dataclass(eq=False)
class Row:
    """A row of a group, and what it has said so far.

    Attributes:
        context: ids in front of it.
        numbers: from a place and a count to the uniform numbers of its tokens from there on.
        limit: the most tokens.
        tokens: sampled ids.
        log_probs: of each, nats, under the distribution that it was drawn from.
        versions: of the weights that each was drawn with.
        kept: of each token the set it was drawn from, where these are recorded.
        stopped: a stop token ended it.
        over: it samples no more.
    """

    context: list[int]
    numbers: Callable[[int, int], Tensor]
    limit: int
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    stopped: bool = False
    over: bool = False


@dataclass(eq=False)
class Group:
    """The rows that answer a prompt.

    Attributes:
        told: whose they are; handed on.
        rows: in their order.
        since: when the last of them began; None: some have not.
    """

    told: Any
    rows: list[Row]
    since: float | None = None


class Seating:
    """The rows of a worker under ``schedule=free``.

    A row that has ended gives its seat to the next one that waits, in the order in which the groups
    came. After ``look_every`` steps new weights may be taken. A group is over when all its rows
    are: by a stop token, by their limit, or because it has taken ``patience`` seconds from when the
    last of them began; then what they have said is all they say.

    Args:
        begin: makes what decodes, before the first turn.
        settings: how many rows at a time (given), and so on.
        clock: seconds.
    """

    def __init__(
        self,
        begin: Callable[[], Seats],
        settings: Free,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert settings.seats is not None
        self.begin = begin
        self.most = settings.seats
        self.settings = settings
        self.clock = clock
        self.groups: list[Group] = []
        self._begun: Seats | None = None
        self._waiting: deque[Row] = deque()
        self._seated: dict[int, Row] = {}

    @property
    def busy(self) -> bool:
        """Whether there is a row to sample."""
        return bool(self.groups)

    @property
    def seats(self) -> Seats:
        """What decodes."""
        if self._begun is None:
            self._begun = self.begin()
        return self._begun

    def renew(self) -> None:
        """Take note that the weights have changed."""
        if self._begun is not None:
            self._begun.renew()

    def add(self, group: Group) -> None:
        """Let the rows of a group wait for seats."""
        self.groups.append(group)
        self._waiting.extend(group.rows)

    def turn(self, version: int) -> list[Group]:
        """Fill seats, take some decode steps; the groups that are over, in the order they came.

        Args:
            version: of the weights of now.
        """
        self._fill()
        if self._seated:
            self._advance(version)
        self._lose_patience()
        over = [group for group in self.groups if all(row.over for row in group.rows)]
        self.groups = [group for group in self.groups if group not in over]
        return over

    def _fill(self) -> None:
        count = min(self.most - len(self._seated), len(self._waiting))
        rows = [self._waiting.popleft() for _ in range(count)]
        if rows:
            places = self.seats.add([row.context for row in rows])
            self._seated |= dict(zip(places, rows, strict=True))
        waiting = {id(row) for row in self._waiting}
        for group in self.groups:
            if group.since is None and not any(id(row) in waiting for row in group.rows):
                group.since = self.clock()

    def _advance(self, version: int) -> None:
        numbers = {
            place: row.numbers(
                len(row.tokens), min(self.settings.look_every, row.limit - len(row.tokens))
            )
            for place, row in self._seated.items()
        }
        for place, said in self.seats.advance(numbers).items():
            row = self._seated[place]
            row.tokens += said.tokens
            row.log_probs += said.log_probs
            row.versions += [version] * len(said.tokens)
            row.kept += [] if said.kept is None else [said.kept]
            row.stopped = not said.truncated
            row.over = row.stopped or len(row.tokens) == row.limit
        self._free()

    def _lose_patience(self) -> None:
        patience, now = self.settings.patience, self.clock()
        if patience is None:
            return
        for group in self.groups:
            if group.since is not None and now - group.since >= patience:
                for row in group.rows:
                    row.over = True
        self._free()

    def _free(self) -> None:
        over = [place for place, row in self._seated.items() if row.over]
        if over:
            self.seats.close(over)
        for place in over:
            del self._seated[place]
