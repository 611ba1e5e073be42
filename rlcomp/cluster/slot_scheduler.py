"""Slot scheduler of a worker: assigns waiting rows to decode slots and ends groups."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from rlcomp.engine.session import DecodeSlots
from rlcomp.interfaces.cluster import AsyncSettings


@dataclass(eq=False)
class RolloutRow:
    """Row of a group, with its sampled tokens.

    Attributes:
        context: token ids before the response.
        uniforms: function from a start and a count to the uniform draws of these tokens.
        limit: maximum number of sampled tokens.
        tokens: sampled ids.
        log_probs: log-prob of each token, nats, under the distribution that it was drawn from.
        versions: version of the weights that sampled each token.
        sampling_mask: sampling masks of the tokens, one tensor per call; empty if not recorded.
        stopped: whether a stop token ended the row.
        finished: whether the row is complete.
    """

    context: list[int]
    uniforms: Callable[[int, int], Tensor]
    limit: int
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    sampling_mask: list[Tensor] = field(default_factory=list)
    stopped: bool = False
    finished: bool = False


@dataclass(eq=False)
class RolloutGroup:
    """The rows that answer a prompt.

    Attributes:
        data: data of the caller; the scheduler does not read it.
        rows: the rows, in order.
        sampling_start: clock time at which the last row began; None if a row waits for a slot.
    """

    data: Any
    rows: list[RolloutRow]
    sampling_start: float | None = None


class SlotScheduler:
    """Scheduler of the rows of a worker under ``schedule=free``.

    A finished row gives its slot to the next waiting row; groups are served in the order of
    arrival. New weights may be loaded after every ``look_every`` steps. A row ends by a stop token,
    by its limit, or ``patience`` seconds after the last row of its group began. A group is finished
    when all of its rows are finished.

    Args:
        make_slots: factory of the decode slots; called once, at the first turn.
        settings: settings of the schedule; ``seats``, the number of slots, is required.
        clock: function that returns the time in seconds.
    """

    def __init__(
        self,
        make_slots: Callable[[], DecodeSlots],
        settings: AsyncSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert settings.seats is not None
        self.make_slots = make_slots
        self.num_slots = settings.seats
        self.settings = settings
        self.clock = clock
        self.groups: list[RolloutGroup] = []
        self._slots: DecodeSlots | None = None
        self._waiting: deque[RolloutRow] = deque()
        self._running: dict[int, RolloutRow] = {}

    @property
    def busy(self) -> bool:
        """Return whether a group is unfinished."""
        return bool(self.groups)

    @property
    def slots(self) -> DecodeSlots:
        """Return the decode slots."""
        if self._slots is None:
            self._slots = self.make_slots()
        return self._slots

    def renew(self) -> None:
        """Update the decode slots after new weights have been loaded."""
        if self._slots is not None:
            self._slots.renew()

    def add(self, group: RolloutGroup) -> None:
        """Queue the rows of a group."""
        self.groups.append(group)
        self._waiting.extend(group.rows)

    def turn(self, version: int) -> list[RolloutGroup]:
        """Fill the slots and take decode steps; return the finished groups, in order of arrival.

        ``version`` is the version of the current weights.
        """
        self._fill()
        if self._running:
            self._advance(version)
        self._end_overdue_groups()
        finished = [group for group in self.groups if all(row.finished for row in group.rows)]
        self.groups = [group for group in self.groups if group not in finished]
        return finished

    def _fill(self) -> None:
        count = min(self.num_slots - len(self._running), len(self._waiting))
        rows = [self._waiting.popleft() for _ in range(count)]
        if rows:
            slot_rows = self.slots.add([row.context for row in rows])
            self._running |= dict(zip(slot_rows, rows, strict=True))
        waiting = {id(row) for row in self._waiting}
        for group in self.groups:
            if group.sampling_start is None and not any(id(row) in waiting for row in group.rows):
                group.sampling_start = self.clock()

    def _advance(self, version: int) -> None:
        numbers = {
            slot_row: row.uniforms(
                len(row.tokens), min(self.settings.look_every, row.limit - len(row.tokens))
            )
            for slot_row, row in self._running.items()
        }
        for slot_row, new in self.slots.advance(numbers).items():
            row = self._running[slot_row]
            row.tokens += new.tokens
            row.log_probs += new.log_probs
            row.versions += [version] * len(new.tokens)
            row.sampling_mask += [] if new.sampling_mask is None else [new.sampling_mask]
            row.stopped = not new.truncated
            row.finished = row.stopped or len(row.tokens) == row.limit
        self._close_finished()

    def _end_overdue_groups(self) -> None:
        patience, now = self.settings.patience, self.clock()
        if patience is None:
            return
        for group in self.groups:
            if group.sampling_start is not None and now - group.sampling_start >= patience:
                for row in group.rows:
                    row.finished = True
        self._close_finished()

    def _close_finished(self) -> None:
        """Close the slots of finished rows."""
        finished = [slot_row for slot_row, row in self._running.items() if row.finished]
        if finished:
            self.slots.close(finished)
        for slot_row in finished:
            del self._running[slot_row]
