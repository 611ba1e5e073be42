"""Steps of the native decode loop: the request to the library, and its results."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.native import abi
from rlcomp.engine.session import Said


def undrawn(decoding: Decoding) -> str | None:
    """Return why the library cannot draw from a distribution; None if it can.

    Args:
        decoding: the distribution.

    Examples:
        >>> undrawn(Decoding(temperature=0.5)), undrawn(Decoding(top_p=0.9))
        (None, 'it has no filters, and decoding.top_p is 0.9')
    """
    filters = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
    for name, off in filters.items():
        if (value := getattr(decoding, name)) != off:
            return f"it has no filters, and decoding.{name} is {value}"
    return None


@dataclass(frozen=True)
class Ends:
    """Ends of a row, apart from its limit.

    Attributes:
        stops: stop tokens.
        texts: stop texts, as byte strings.
        table: the bytes of each token; read only if there are stop texts.
    """

    stops: Collection[int]
    texts: Sequence[bytes] = ()
    table: Sequence[bytes] = ()


class Steps:
    """Some steps of some rows.

    Args:
        rows: their indices in the session.
        limits: the most tokens of each row, at least 1.
        uniform: numbers in [0, 1), shape ``[steps, len(rows)]``, float64.
        draw: the distribution.
        ends: ends of a row, apart from its limit.
        goes_on: whether other steps began the turn.
        closes: whether rows that end are freed.

    Attributes:
        struct: argument of the library.
        tokens: shape ``[len(rows), steps]``, int64; 0 after a row's end.
        log_probs: shape ``[len(rows), steps]``, nats; 0 after a row's end.
        lengths: number of tokens sampled in each row.
        ended: shape ``[len(rows)]``, uint8: whether a stop ended it, not its limit.
    """

    def __init__(
        self,
        rows: Sequence[int],
        *,
        limits: Sequence[int],
        uniform: Tensor,
        draw: TokenDraw,
        ends: Ends,
        goes_on: bool = False,
        closes: bool = False,
    ) -> None:
        steps, count = uniform.shape
        barred = draw.suppressed
        self.tokens = torch.zeros(count, steps, dtype=torch.int64)
        self.log_probs = torch.zeros(count, steps, dtype=torch.float32)
        self.lengths = torch.zeros(count, dtype=torch.int64)
        self.ended = torch.zeros(count, dtype=torch.uint8)
        self._alive: list[object] = []  # targets of the struct's pointers
        suppressed = [] if barred is None else barred.nonzero().flatten().tolist()
        self.struct = abi.Turn(
            count=count,
            steps=steps,
            rows=self._pointer(abi.integers(rows)),
            limits=self._pointer(abi.integers(limits)),
            uniform=self._pointer(uniform.contiguous()),
            temperature=draw.decoding.temperature,
            suppressed=self._pointer(abi.integers(suppressed)),
            num_suppressed=len(suppressed),
            stops=self._pointer(abi.integers(sorted(ends.stops))),
            num_stops=len(ends.stops),
            texts=self._texts(ends.texts),
            table=self._texts(ends.table if ends.texts else ()),
            goes_on=goes_on,
            closes=closes,
            tokens=self.tokens.data_ptr(),
            log_probs=self.log_probs.data_ptr(),
            lengths=self.lengths.data_ptr(),
            ended=self.ended.data_ptr(),
        )

    def said(self) -> list[Said]:
        """Return the tokens that each row sampled; truncated where no stop ended it."""
        rows = zip(self.lengths.tolist(), self.ended.tolist(), strict=True)
        return [
            Said(tokens[:length], log_probs[:length], not ended)
            for (length, ended), tokens, log_probs in zip(
                rows, self.tokens.tolist(), self.log_probs.tolist(), strict=True
            )
        ]

    def _texts(self, texts: Sequence[bytes]) -> abi.Texts:
        joined = b"".join(texts)
        ends = abi.integers([len(text) for text in texts]).cumsum(0)
        held = ctypes.create_string_buffer(joined, len(joined) + 1)
        self._alive.append(held)
        return abi.Texts(ctypes.addressof(held), self._pointer(ends), len(texts))

    def _pointer(self, tensor: Tensor) -> int:
        self._alive.append(tensor)
        return tensor.data_ptr()
