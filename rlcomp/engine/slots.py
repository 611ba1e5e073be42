"""Continuous batching: rows begin and end at any step; weights may change between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

from rlcomp.engine.draw import Draw
from rlcomp.engine.session import Decode, TurnSample, split_by_row
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.uniforms import FixedUniforms


class DecodeSlots(Protocol):
    """Decode slots: rows are sampled some steps at a time, and a new row may begin at any time."""

    def add(self, contexts: Sequence[Sequence[int]]) -> list[int]:
        """Begin a row after each non-empty context; return the rows' numbers, never reused."""
        ...

    def advance(self, numbers: Mapping[int, Tensor]) -> dict[int, TurnSample]:
        """Sample more tokens of some rows.

        Args:
            numbers: for each row its uniform numbers in [0, 1), float64: one for each token that
                the row may sample in this call, at least one.

        Returns:
            The tokens that each row sampled; ``truncated`` if the row used all of its numbers
            and no stop token ended it.
        """
        ...

    def renew(self) -> None:
        """Take over changed weights."""
        ...

    def close(self, rows: Sequence[int]) -> None:
        """Free the memory of rows."""
        ...


class RecomputeSlots:
    """Decode slots that compute a row's whole context again in every call: the reference.

    They support any model. A row is computed with the current weights, so that the log-prob of a
    token is the score of its row under the weights that sampled it.

    Args:
        decode: a decode loop that is bound to its model.
        stops: tokens that end a row.
        draw: maps logits and uniform numbers to tokens.
    """

    def __init__(self, decode: Decode, stops: Sequence[int], draw: Draw) -> None:
        self.decode = decode
        self.stops = stops
        self.draw = draw
        self.contexts: dict[int, list[int]] = {}
        self._next = 0

    def add(self, contexts: Sequence[Sequence[int]]) -> list[int]:
        """Store the contexts; return the rows' numbers."""
        rows = list(range(self._next, self._next + len(contexts)))
        self._next += len(contexts)
        self.contexts |= {row: list(context) for row, context in zip(rows, contexts, strict=True)}
        return rows

    def advance(self, numbers: Mapping[int, Tensor]) -> dict[int, TurnSample]:
        """Sample more tokens of some rows."""
        sampled = self.decode(
            [self.contexts[row] for row in numbers],
            group_size=1,
            stop=StopRule(self.stops, [len(row_numbers) for row_numbers in numbers.values()]),
            draw=self.draw,
            uniforms=FixedUniforms([*numbers.values()]),
        )
        turns = dict(zip(numbers, split_by_row(sampled), strict=True))
        for row, turn in turns.items():
            self.contexts[row] += turn.tokens
        return turns

    def renew(self) -> None:
        """No-op: every call reads the current weights."""

    def close(self, rows: Sequence[int]) -> None:
        """Remove rows."""
        for row in rows:
            del self.contexts[row]
