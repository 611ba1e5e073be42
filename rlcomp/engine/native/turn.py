"""Request for decode steps of the native library, and its results."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.native import abi
from rlcomp.engine.session import TurnSample


def unsupported_decoding(decoding: Decoding) -> str | None:
    """Return why the library cannot draw from a distribution; None if it can.

    Args:
        decoding: the distribution.

    Examples:
        >>> unsupported_decoding(Decoding(temperature=0.5)) is None
        True
        >>> unsupported_decoding(Decoding(top_p=0.9))
        'it has no filters, and decoding.top_p is 0.9'
    """
    filters = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
    for name, neutral in filters.items():
        if (value := getattr(decoding, name)) != neutral:
            return f"it has no filters, and decoding.{name} is {value}"
    return None


@dataclass(frozen=True)
class StopConditions:
    """Conditions that end a row before its limit.

    Attributes:
        stops: stop tokens.
        texts: stop texts, as byte strings.
        table: the bytes of each token; used only with stop texts.
    """

    stops: Collection[int]
    texts: Sequence[bytes] = ()
    table: Sequence[bytes] = ()


class DecodeRequest:
    """Request for decode steps of some rows, with buffers for the results.

    Args:
        rows: indices of the rows in the session.
        limits: maximum number of tokens of each row, at least 1.
        uniform: numbers in [0, 1), shape ``[steps, len(rows)]``, float64.
        draw: the draw of the tokens.
        ends: conditions that end a row before its limit.
        goes_on: whether an earlier request has begun the turn.
        closes: whether the memory of a row is freed at its end.

    Attributes:
        struct: argument of the library's functions.
        tokens: shape ``[len(rows), steps]``, int64; 0 after a row's end.
        log_probs: shape ``[len(rows), steps]``, nats; 0 after a row's end.
        lengths: number of tokens sampled in each row.
        ended: shape ``[len(rows)]``, uint8: 1 if a stop condition ended the row.
    """

    def __init__(
        self,
        rows: Sequence[int],
        *,
        limits: Sequence[int],
        uniform: Tensor,
        draw: TokenDraw,
        ends: StopConditions,
        goes_on: bool = False,
        closes: bool = False,
    ) -> None:
        steps, count = uniform.shape
        suppressed_mask = draw.suppressed
        self.tokens = torch.zeros(count, steps, dtype=torch.int64)
        self.log_probs = torch.zeros(count, steps, dtype=torch.float32)
        self.lengths = torch.zeros(count, dtype=torch.int64)
        self.ended = torch.zeros(count, dtype=torch.uint8)
        self._alive: list[object] = []  # keeps the targets of the struct's pointers alive
        suppressed = [] if suppressed_mask is None else suppressed_mask.nonzero().flatten().tolist()
        self.struct = abi.TurnStruct(
            count=count,
            steps=steps,
            rows=self._pointer(abi.int64_tensor(rows)),
            limits=self._pointer(abi.int64_tensor(limits)),
            uniform=self._pointer(uniform.contiguous()),
            temperature=draw.decoding.temperature,
            suppressed=self._pointer(abi.int64_tensor(suppressed)),
            num_suppressed=len(suppressed),
            stops=self._pointer(abi.int64_tensor(sorted(ends.stops))),
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

    def turns(self) -> list[TurnSample]:
        """Return the turn that each row sampled; truncated if no stop condition ended it."""
        rows = zip(self.lengths.tolist(), self.ended.tolist(), strict=True)
        return [
            TurnSample(tokens[:length], log_probs[:length], not ended)
            for (length, ended), tokens, log_probs in zip(
                rows, self.tokens.tolist(), self.log_probs.tolist(), strict=True
            )
        ]

    def _texts(self, texts: Sequence[bytes]) -> abi.TextsStruct:
        joined = b"".join(texts)
        ends = abi.int64_tensor([len(text) for text in texts]).cumsum(0)
        buffer = ctypes.create_string_buffer(joined, len(joined) + 1)
        self._alive.append(buffer)
        return abi.TextsStruct(ctypes.addressof(buffer), self._pointer(ends), len(texts))

    def _pointer(self, tensor: Tensor) -> int:
        self._alive.append(tensor)
        return tensor.data_ptr()
