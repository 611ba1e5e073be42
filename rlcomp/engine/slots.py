"""Continuous batching: rows begin and end at any time; weights may change between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from rlcomp.engine.draw import Draw, uniform
from rlcomp.engine.session import Decode, Said, said_by
from rlcomp.engine.stopping import StopRule

# Steps whose numbers are drawn at a time.
_BLOCK = 64


class Seats(Protocol):
    """Rows that are sampled some steps at a time; another may begin as soon as one has ended."""

    def add(self, contexts: Sequence[Sequence[int]]) -> list[int]:
        """Begin rows behind non-empty contexts; return their numbers, unique over time."""
        ...

    def advance(self, numbers: Mapping[int, Tensor]) -> dict[int, Said]:
        """Continue to sample some rows.

        Args:
            numbers: by row, a uniform number in [0, 1) for each token that it may sample now,
                float64, at least one.

        Returns:
            The tokens that each row sampled; ``truncated`` if it ended because it had no more
            numbers.
        """
        ...

    def renew(self) -> None:
        """Register that the weights have changed."""
        ...

    def close(self, rows: Sequence[int]) -> None:
        """Free the memory of rows that are over."""
        ...


class RequestUniforms:
    """Numbers of a request's rows: the same as when all of them are decoded at once.

    A row's n-th token has the number of :class:`rlcomp.engine.draw.Uniforms` at step n. The
    time of its sampling and the rows beside it do not matter.

    Args:
        rows: of the whole request.
        seed: of the request's generator.
    """

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self.generator = torch.Generator().manual_seed(seed)
        self._drawn = torch.empty(0, rows, dtype=torch.float64)

    def of(self, row: int, start: int, count: int) -> Tensor:
        """Return numbers of a row from its token ``start`` on, shape ``[count]``."""
        while len(self._drawn) < start + count:
            steps = [uniform(self.rows, self.generator)[:, 0] for _ in range(_BLOCK)]
            self._drawn = torch.cat([self._drawn, torch.stack(steps)])
        return self._drawn[start : start + count, row]


class GivenUniforms:
    """Numbers drawn before, in the form that a decode loop reads.

    Args:
        numbers: of each row, one per step; padded with zeros that no row reaches.
    """

    def __init__(self, numbers: Sequence[Tensor]) -> None:
        self.rows = len(numbers)
        self._numbers = stacked(numbers)[..., None]

    def at(self, step: int) -> Tensor:
        """Return the numbers of a step, shape ``[rows, 1]``."""
        return self._numbers[step]

    def some(self, start: int, count: int) -> Tensor:
        """Return the numbers of some steps, shape ``[count, rows, 1]``."""
        return self._numbers[start : start + count]

    def rewind(self, steps: int) -> None:
        """Do nothing: the numbers were drawn elsewhere."""


def stacked(numbers: Sequence[Tensor]) -> Tensor:
    """Stack numbers of several rows, shape ``[steps, rows]``, 0 behind the end of each.

    Examples:
        >>> stacked([torch.tensor([0.5, 0.25]), torch.tensor([0.75])]).tolist()
        [[0.5, 0.75], [0.25, 0.0]]
    """
    return torch.nn.utils.rnn.pad_sequence(list(numbers))


class RereadingSeats:
    """Seats whose rows are read again whenever they continue: the reference, for any model.

    Rows are read with the current weights, so that the log-prob of a token is the score of its row
    under the weights that sampled it.

    Args:
        decode: a decode loop with its model.
        stops: tokens that end a row.
        draw: from logits and uniform numbers to tokens.
    """

    def __init__(self, decode: Decode, stops: Sequence[int], draw: Draw) -> None:
        self.decode = decode
        self.stops = stops
        self.draw = draw
        self.contexts: dict[int, list[int]] = {}
        self._next = 0

    def add(self, contexts: Sequence[Sequence[int]]) -> list[int]:
        """Store the contexts."""
        rows = list(range(self._next, self._next + len(contexts)))
        self._next += len(contexts)
        self.contexts |= {row: list(own) for row, own in zip(rows, contexts, strict=True)}
        return rows

    def advance(self, numbers: Mapping[int, Tensor]) -> dict[int, Said]:
        """Continue to sample some rows."""
        sampled = self.decode(
            [self.contexts[row] for row in numbers],
            group_size=1,
            stop=StopRule(self.stops, [len(own) for own in numbers.values()]),
            draw=self.draw,
            uniforms=GivenUniforms([*numbers.values()]),
        )
        turns = dict(zip(numbers, said_by(sampled), strict=True))
        for row, turn in turns.items():
            self.contexts[row] += turn.tokens
        return turns

    def renew(self) -> None:
        """No-op: nothing of the weights is stored."""

    def close(self, rows: Sequence[int]) -> None:
        """Remove the rows."""
        for row in rows:
            del self.contexts[row]
