"""Continuous batching in C++, with a KV cache of every row."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.native import abi
from rlcomp.engine.native.library import library
from rlcomp.engine.native.turn import DecodeRequest, StopConditions
from rlcomp.engine.native.weights import NativeModel
from rlcomp.engine.session import TurnSample
from rlcomp.engine.transformer import Transformer
from rlcomp.engine.uniforms import stack_numbers


class NativeSlots:
    """Decode slots of the native library.

    With the same numbers and weights a row's tokens are bitwise those of
    :func:`rlcomp.engine.decode_native.decode`, for any other rows in the slots.

    After a change of the weights, cached keys and values stay those of the old weights. With
    ``reread`` they are computed again, and the log-prob of a token is the score of its row under
    the weights that sampled it.

    Args:
        transformer: the model; its weights may be changed in place between two calls.
        stops: tokens that end a row.
        draw: the draw of the tokens, without filters.
        longest: maximum number of tokens of a row.
        reread: whether the KV cache is computed again after the weights have changed.
    """

    def __init__(
        self,
        transformer: Transformer,
        stops: Sequence[int],
        draw: TokenDraw,
        *,
        longest: int,
        reread: bool = False,
    ) -> None:
        self.draw = draw
        self.ends = StopConditions(stops)
        self.reread = reread
        self.model = NativeModel(transformer, longest)
        self.library = library()
        self.handle = ctypes.c_void_p()
        self.library.rlcomp_session(self.model.pointer, ctypes.byref(self.handle))
        weakref.finalize(self, self.library.rlcomp_free, self.handle)
        self.contexts: dict[int, list[int]] = {}
        self._unread: dict[int, int] = {}  # the last token of rows where it is not in the KV cache
        self._session_rows: dict[int, int] = {}  # the rows' indices in the library's session
        self._next = self._opened = 0

    def add(self, contexts: Sequence[Sequence[int]]) -> list[int]:
        """Compute contexts, equal ones once; return the rows' numbers."""
        rows = list(range(self._next, self._next + len(contexts)))
        self._next += len(contexts)
        self.contexts |= {row: list(context) for row, context in zip(rows, contexts, strict=True)}
        self._open(rows)
        return rows

    @torch.no_grad()
    def advance(self, numbers: Mapping[int, Tensor]) -> dict[int, TurnSample]:
        """Sample more tokens of some rows."""
        self._read([row for row in numbers if row in self._unread])
        request = DecodeRequest(
            [self._session_rows[row] for row in numbers],
            limits=[len(row_numbers) for row_numbers in numbers.values()],
            uniform=stack_numbers([*numbers.values()]),
            draw=self.draw,
            ends=self.ends,
        )
        self.library.rlcomp_generate(self.handle, ctypes.byref(request.struct))
        turns = dict(zip(numbers, request.turns(), strict=True))
        for row, turn in turns.items():
            self.contexts[row] += turn.tokens
            self._unread[row] = turn.tokens[-1]
        return turns

    def renew(self) -> None:
        """Update copied weights; with ``reread`` compute the KV cache of all rows again."""
        self.model.refresh()
        if self.reread:
            rows = list(self.contexts)
            self._free(rows)
            self._open(rows)

    def close(self, rows: Sequence[int]) -> None:
        """Free the memory of rows."""
        self._free(rows)
        for row in rows:
            del self.contexts[row]

    def _open(self, rows: Sequence[int]) -> None:
        """Compute the contexts of some rows, equal ones once."""
        if not rows:
            return
        prompts: dict[tuple[int, ...], int] = {}  # distinct contexts and their indices
        owners = [prompts.setdefault(tuple(self.contexts[row]), len(prompts)) for row in rows]
        tokens = abi.int64_tensor([token for prompt in prompts for token in prompt])
        lengths, row_owners = (
            abi.int64_tensor([len(prompt) for prompt in prompts]),
            abi.int64_tensor(owners),
        )
        self.library.rlcomp_open(
            self.handle,
            tokens.data_ptr(),
            lengths.data_ptr(),
            len(prompts),
            row_owners.data_ptr(),
            len(owners),
        )
        self._session_rows |= {row: self._opened + n for n, row in enumerate(rows)}
        self._opened += len(rows)

    def _read(self, rows: Sequence[int]) -> None:
        """Compute the last token of some rows; its keys and values enter the KV cache."""
        if not rows:
            return
        tokens = abi.int64_tensor([self._unread.pop(row) for row in rows])
        counts = abi.int64_tensor([1] * len(rows))
        session_rows = abi.int64_tensor([self._session_rows[row] for row in rows])
        self.library.rlcomp_read(
            self.handle, session_rows.data_ptr(), len(rows), tokens.data_ptr(), counts.data_ptr()
        )

    def _free(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.library.rlcomp_close(self.handle, self._session_rows.pop(row))
            self._unread.pop(row, None)
