"""Refilled seats: rows that begin and end at any time, under weights that change between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from rlcomp.engine.draw import Draw, uniform
from rlcomp.engine.session import Decode, Said, said_by
from rlcomp.engine.stopping import StopRule

# Steps whose numbers are drawn in one go.
_BLOCK = 64


class Seats(Protocol):
    """Rows that are sampled some steps at a time; others may begin as soon as one has ended."""

    def add(self, contexts: Sequence[Sequence[int]]) -> list[int]:
        """Begin rows behind contexts, none empty; their numbers, which no other row gets."""
        ...

    def advance(self, numbers: Mapping[int, Tensor]) -> dict[int, Said]:
        """Sample on in some rows.

        Args:
            numbers: by row, a uniform number in [0, 1) for each token that it may sample now,
                float64, at least one.

        Returns:
            What each row has sampled; ``truncated`` where nothing but the numbers ended it.
        """
        ...

    def renew(self) -> None:
        """Take note that the weights have changed."""
        ...

    def close(self, rows: Sequence[int]) -> None:
        """Free what rows hold: they are over."""
        ...


class RequestUniforms:
    """The numbers of a request's rows: those that all of them get where they are decoded at once.

    A row's n-th token has the number of :class:`rlcomp.engine.draw.Uniforms` at step n, whenever
    it is sampled and whatever beside it.

    Args:
        rows: of the whole request.
        seed: of the request's generator.
    """

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self.generator = torch.Generator().manual_seed(seed)
        self._drawn = torch.empty(0, rows, dtype=torch.float64)

    def of(self, row: int, start: int, count: int) -> Tensor:
        """Numbers of a row from its token ``start`` on, shape ``[count]``."""
        while len(self._drawn) < start + count:
            steps = [uniform(self.rows, self.generator)[:, 0] for _ in range(_BLOCK)]
            self._drawn = torch.cat([self._drawn, torch.stack(steps)])
        return self._drawn[start : start + count, row]


class GivenUniforms:
    """Numbers of rows that are there already, as a decode loop asks for them.

    Args:
        numbers: of each row, one for each step; filled up with zeros, which no row comes to.
    """

    def __init__(self, numbers: Sequence[Tensor]) -> None:
        self.rows = len(numbers)
        self._numbers = stacked(numbers)[..., None]

    def at(self, step: int) -> Tensor:
        """Numbers of a step, shape ``[rows, 1]``."""
        return self._numbers[step]

    def some(self, start: int, count: int) -> Tensor:
        """Numbers of some steps, shape ``[count, rows, 1]``."""
        return self._numbers[start : start + count]

    def rewind(self, steps: int) -> None:
        """Nothing: they were not drawn here."""


def stacked(numbers: Sequence[Tensor]) -> Tensor:
    """Numbers of several rows, shape ``[steps, rows]``, 0 behind the end of each.

    Examples:
        >>> stacked([torch.tensor([0.5, 0.25]), torch.tensor([0.75])]).tolist()
        [[0.5, 0.75], [0.25, 0.0]]
    """
    return torch.nn.utils.rnn.pad_sequence(list(numbers))


class RereadingSeats:
    """Seats whose rows are read again whenever they sample on: the reference, for any model.

    What is read is read with the weights of now, so that the log-prob of a token is the score of
    its row by the weights that sampled it.

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
        """Note the contexts."""
        rows = list(range(self._next, self._next + len(contexts)))
        self._next += len(contexts)
        self.contexts |= {row: list(own) for row, own in zip(rows, contexts, strict=True)}
        return rows

    def advance(self, numbers: Mapping[int, Tensor]) -> dict[int, Said]:
        """Sample on in some rows."""
        found = self.decode(
            [self.contexts[row] for row in numbers],
            group_size=1,
            stop=StopRule(self.stops, [len(own) for own in numbers.values()]),
            draw=self.draw,
            uniforms=GivenUniforms([*numbers.values()]),
        )
        said = dict(zip(numbers, said_by(found), strict=True))
        for row, more in said.items():
            self.contexts[row] += more.tokens
        return said

    def renew(self) -> None:
        """Nothing is kept."""

    def close(self, rows: Sequence[int]) -> None:
        """Forget them."""
        for row in rows:
            del self.contexts[row]
