"""Slot scheduler: which rows a worker samples now, and when a group is over."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from rlcomp.engine.slots import DecodeSlots
from rlcomp.interfaces.cluster import Free


@dataclass(eq=False)
class Row:
    """A row of a group, and its tokens so far.

    Attributes:
        context: ids in front of it.
        numbers: from a start and a count to the uniform numbers of its tokens from there on.
        limit: the most tokens.
        tokens: sampled ids.
        log_probs: of each token, nats, under the distribution that it was drawn from.
        versions: of the weights that sampled each token.
        sampling_mask: sampling mask of each token, if masks are recorded.
        stopped: whether a stop token ended it.
        over: whether it samples no more.
    """

    context: list[int]
    numbers: Callable[[int, int], Tensor]
    limit: int
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    sampling_mask: list[Tensor] = field(default_factory=list)
    stopped: bool = False
    over: bool = False


@dataclass(eq=False)
class Group:
    """The rows that answer a prompt.

    Attributes:
        told: data of the caller; passed on.
        rows: in their order.
        since: when the last of them began; None: some have not begun.
    """

    told: Any
    rows: list[Row]
    since: float | None = None


class Seating:
    """The rows of a worker under ``schedule=free``.

    A row that ends gives its slot to the next waiting row, in the order of arrival of the groups.
    After ``look_every`` steps new weights may be loaded. A group is over when all of its rows are:
    by a stop token, by their limit, or ``patience`` seconds after the last of them began; then
    their tokens so far are final.

    Args:
        begin: makes the decoder, before the first turn.
        settings: number of rows at a time (required), and others.
        clock: in seconds.
    """

    def __init__(
        self,
        begin: Callable[[], DecodeSlots],
        settings: Free,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert settings.seats is not None
        self.begin = begin
        self.most = settings.seats
        self.settings = settings
        self.clock = clock
        self.groups: list[Group] = []
        self._begun: DecodeSlots | None = None
        self._waiting: deque[Row] = deque()
        self._seated: dict[int, Row] = {}

    @property
    def busy(self) -> bool:
        """Return whether there is a row to sample."""
        return bool(self.groups)

    @property
    def seats(self) -> DecodeSlots:
        """Return the decoder."""
        if self._begun is None:
            self._begun = self.begin()
        return self._begun

    def renew(self) -> None:
        """Register that the weights have changed."""
        if self._begun is not None:
            self._begun.renew()

    def add(self, group: Group) -> None:
        """Queue the rows of a group."""
        self.groups.append(group)
        self._waiting.extend(group.rows)

    def turn(self, version: int) -> list[Group]:
        """Fill slots, and take decode steps; return the groups that are over, in order of arrival.

        Args:
            version: of the current weights.
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
        for place, new in self.seats.advance(numbers).items():
            row = self._seated[place]
            row.tokens += new.tokens
            row.log_probs += new.log_probs
            row.versions += [version] * len(new.tokens)
            row.sampling_mask += [] if new.sampling_mask is None else [new.sampling_mask]
            row.stopped = not new.truncated
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
