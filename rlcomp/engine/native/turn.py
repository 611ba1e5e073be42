"""Steps of the native decode loop: what is asked of the library, and what it answers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.native import abi


def unsampled(decoding: Decoding) -> str | None:
    """Why the library cannot draw from a distribution; None if it can."""
    if not decoding.truncates:
        return None
    names = ("top_k", "top_p", "min_p")
    default = Decoding()
    set_to = [f"decoding.{n}={getattr(decoding, n)}" for n in names]
    changed = [
        text for text, n in zip(set_to, names, strict=True) if _differs(decoding, default, n)
    ]
    return f"it filters no tokens ({', '.join(changed)})"


def _differs(decoding: Decoding, default: Decoding, name: str) -> bool:
    return bool(getattr(decoding, name) != getattr(default, name))


class Steps:
    """Some steps of some rows.

    Args:
        rows: their numbers in the session.
        limits: the most tokens of each, at least 1.
        uniform: numbers in [0, 1), shape ``[steps, len(rows)]``, float64.
        draw: the distribution.
        stops: tokens that end a row.
        texts: byte strings that end a row.
        table: the bytes of each token; read only where there are such texts.
        goes_on: the turn began with other steps.
        closes: rows that are over are freed.

    Attributes:
        struct: what the library gets.
        tokens: shape ``[len(rows), steps]``, int64; 0 after a row's end.
        log_probs: shape ``[len(rows), steps]``, nats; 0 after a row's end.
        lengths: tokens that each row took.
        ended: shape ``[len(rows)]``, uint8: a stop ended it, not its limit.
    """

    def __init__(
        self,
        rows: Sequence[int],
        *,
        limits: Sequence[int],
        uniform: Tensor,
        draw: TokenDraw,
        stops: Sequence[int],
        texts: Sequence[bytes] = (),
        table: Sequence[bytes] = (),
        goes_on: bool = False,
        closes: bool = False,
    ) -> None:
        steps, count = uniform.shape
        barred = draw.suppressed
        self.tokens = torch.zeros(count, steps, dtype=torch.int64)
        self.log_probs = torch.zeros(count, steps)
        self.lengths = torch.zeros(count, dtype=torch.int64)
        self.ended = torch.zeros(count, dtype=torch.uint8)
        suppressed = abi.integers([]) if barred is None else barred.nonzero().flatten().contiguous()
        ends = abi.integers(sorted(stops))
        # What the pointers point at.
        self._alive: list[object] = [
            abi.integers(rows),
            abi.integers(limits),
            uniform.contiguous(),
            suppressed,
            ends,
        ]
        some, most, numbers = (each.data_ptr() for each in self._alive[:3])  # type: ignore[attr-defined]
        self.struct = abi.Turn(
            count=count,
            steps=steps,
            rows=some,
            limits=most,
            uniform=numbers,
            temperature=draw.decoding.temperature,
            suppressed=suppressed.data_ptr(),
            num_suppressed=len(suppressed),
            stops=ends.data_ptr(),
            num_stops=len(ends),
            texts=self._texts(texts),
            table=self._texts(table if texts else ()),
            goes_on=goes_on,
            closes=closes,
            tokens=self.tokens.data_ptr(),
            log_probs=self.log_probs.data_ptr(),
            lengths=self.lengths.data_ptr(),
            ended=self.ended.data_ptr(),
        )

    def _texts(self, texts: Sequence[bytes]) -> abi.Texts:
        joined = b"".join(texts)
        ends = abi.integers([len(text) for text in texts]).cumsum(0)
        held = ctypes.create_string_buffer(joined, len(joined) + 1)
        self._alive += [held, ends]
        return abi.Texts(ctypes.addressof(held), ends.data_ptr(), len(texts))
