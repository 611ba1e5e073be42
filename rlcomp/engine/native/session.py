"""Session of the native library, and its decode requests."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.native.library import TextsStruct, TurnStruct, int64_tensor, library
from rlcomp.engine.native.weights import NativeModel
from rlcomp.engine.session import TurnSample


def unsupported_decoding(decoding: Decoding) -> str | None:
    """Return why the library cannot draw from a distribution; None if it can.

    Examples:
        >>> unsupported_decoding(Decoding(temperature=0.5)) is None
        True
        >>> unsupported_decoding(Decoding(top_p=0.9))
        'it has no filters, and decoding.top_p is 0.9'
    """
    for name, neutral in {"top_k": 0, "top_p": 1.0, "min_p": 0.0}.items():
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
        draw: a draw without filters.
        ends: conditions that end a row before its limit.
        continues: whether an earlier request began the turn, so that a stop text may have begun.
        closes: whether a row is closed when it has ended.

    Attributes:
        struct: argument of the library's functions.
        tokens: shape ``[len(rows), steps]``, int64; 0 after a row's end.
        log_probs: shape ``[len(rows), steps]``, nats; 0 after a row's end.
        lengths: shape ``[len(rows)]``, int64: number of tokens sampled in each row.
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
        continues: bool = False,
        closes: bool = False,
    ) -> None:
        steps, count = uniform.shape
        self.tokens = torch.zeros(count, steps, dtype=torch.int64)
        self.log_probs = torch.zeros(count, steps, dtype=torch.float32)
        self.lengths = torch.zeros(count, dtype=torch.int64)
        self.ended = torch.zeros(count, dtype=torch.uint8)
        self._alive: list[object] = []  # keeps the targets of the struct's pointers alive
        suppressed = [] if draw.suppressed is None else draw.suppressed.nonzero().flatten().tolist()
        self.struct = TurnStruct(
            count=count,
            steps=steps,
            rows=self._pointer(int64_tensor(rows)),
            limits=self._pointer(int64_tensor(limits)),
            uniform=self._pointer(uniform.contiguous()),
            temperature=draw.decoding.temperature,
            suppressed=self._pointer(int64_tensor(suppressed)),
            num_suppressed=len(suppressed),
            stops=self._pointer(int64_tensor(sorted(ends.stops))),
            num_stops=len(ends.stops),
            texts=self._texts(ends.texts),
            table=self._texts(ends.table if ends.texts else ()),
            goes_on=continues,
            closes=closes,
            tokens=self.tokens.data_ptr(),
            log_probs=self.log_probs.data_ptr(),
            lengths=self.lengths.data_ptr(),
            ended=self.ended.data_ptr(),
        )

    def turns(self) -> list[TurnSample]:
        """Return the turn of each row; ``truncated`` if no stop condition ended it.

        A row that has used all steps of the request, but not its limit, is truncated too.
        """
        rows = zip(self.lengths.tolist(), self.ended.tolist(), strict=True)
        return [
            TurnSample(tokens[:length], log_probs[:length], not ended)
            for (length, ended), tokens, log_probs in zip(
                rows, self.tokens.tolist(), self.log_probs.tolist(), strict=True
            )
        ]

    def _texts(self, texts: Sequence[bytes]) -> TextsStruct:
        joined = b"".join(texts)
        ends = int64_tensor([len(text) for text in texts]).cumsum(0)
        buffer = ctypes.create_string_buffer(joined, len(joined) + 1)
        self._alive.append(buffer)
        return TextsStruct(ctypes.addressof(buffer), self._pointer(ends), len(texts))

    def _pointer(self, tensor: Tensor) -> int:
        self._alive.append(tensor)
        return tensor.data_ptr()


class LibrarySession:
    """Rows of token ids with a KV cache, in the native library.

    No argument is checked: an invalid row or token reads foreign memory.

    Args:
        model: the model; its weights are read in place.
    """

    def __init__(self, model: NativeModel) -> None:
        self.model = model
        self.library = library()
        self.handle = ctypes.c_void_p()
        self.num_rows = 0
        self.library.rlcomp_session(model.pointer, ctypes.byref(self.handle))
        weakref.finalize(self, self.library.rlcomp_free, self.handle)

    def open(self, contexts: Sequence[Sequence[int]]) -> list[int]:
        """Add a row for each context and compute equal contexts once; return the rows' indices."""
        prompts: dict[tuple[int, ...], int] = {}  # distinct contexts and their indices
        owners = int64_tensor([prompts.setdefault(tuple(row), len(prompts)) for row in contexts])
        tokens, lengths = join_rows(list(prompts))
        self.library.rlcomp_open(
            self.handle,
            tokens.data_ptr(),
            lengths.data_ptr(),
            len(prompts),
            owners.data_ptr(),
            len(owners),
        )
        self.num_rows += len(contexts)
        return list(range(self.num_rows - len(contexts), self.num_rows))

    def read(self, tokens: Mapping[int, Sequence[int]]) -> None:
        """Append tokens to rows; their keys and values enter the KV cache."""
        rows = int64_tensor(list(tokens))
        ids, counts = join_rows(list(tokens.values()))
        self.library.rlcomp_read(
            self.handle, rows.data_ptr(), len(rows), ids.data_ptr(), counts.data_ptr()
        )

    def generate(self, request: DecodeRequest) -> list[TurnSample]:
        """Run a decode request; a row's last token does not enter the KV cache."""
        self.library.rlcomp_generate(self.handle, ctypes.byref(request.struct))
        return request.turns()

    def logits(self, rows: Sequence[int]) -> Tensor:
        """Return the logits of the next token of some rows, shape ``[len(rows), V]``."""
        logits = torch.empty(len(rows), self.model.vocabulary, dtype=torch.float32)
        indices = int64_tensor(rows)
        self.library.rlcomp_logits(self.handle, indices.data_ptr(), len(rows), logits.data_ptr())
        return logits

    def fork(self, row: int) -> None:
        """Add a copy of a row that shares its pages; it becomes the last row."""
        self.library.rlcomp_fork(self.handle, row, ctypes.byref(ctypes.c_int64()))
        self.num_rows += 1

    def close(self, rows: Sequence[int]) -> None:
        """Free the memory of rows."""
        for row in rows:
            self.library.rlcomp_close(self.handle, row)


def join_rows(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return the tokens of rows as one list, and the number of tokens of each row, int64."""
    return int64_tensor([token for row in rows for token in row]), int64_tensor([*map(len, rows)])
