"""Continuous batching in C++: rows keep their keys and values while others begin and end."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.native import abi
from rlcomp.engine.native.library import library
from rlcomp.engine.native.turn import Ends, Steps
from rlcomp.engine.native.weights import NativeModel
from rlcomp.engine.session import Said
from rlcomp.engine.slots import stacked
from rlcomp.engine.transformer import Transformer


class NativeSeats:
    """Seats of a session of the native library; rows are added as they come.

    With the same numbers and weights a row has the tokens of
    :func:`rlcomp.engine.decode_native.decode`, to the last bit, whatever other rows there are.

    New weights act on all tokens read from then on. Keys and values that were computed before stay
    those of the old weights, unless ``reread``: then they are computed anew, and the log-prob of a
    token is the score of its row under the weights that sampled it.

    Args:
        transformer: the model; its weights may be changed in place between two calls.
        stops: tokens that end a row.
        draw: without filters.
        longest: the most tokens of a row.
        reread: whether tokens are read again after the weights have changed.
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
        self.ends = Ends(stops)
        self.reread = reread
        self.model = NativeModel(transformer, longest)
        self.library = library()
        self.handle = ctypes.c_void_p()
        self.library.rlcomp_session(self.model.pointer, ctypes.byref(self.handle))
        weakref.finalize(self, self.library.rlcomp_free, self.handle)
        self.contexts: dict[int, list[int]] = {}
        self._unread: dict[int, int] = {}  # the last token, where the session has not read it
        self._places: dict[int, int] = {}  # the rows' numbers in the session
        self._next = self._opened = 0

    def add(self, contexts: Sequence[Sequence[int]]) -> list[int]:
        """Read contexts; equal ones are read once."""
        rows = list(range(self._next, self._next + len(contexts)))
        self._next += len(contexts)
        self.contexts |= {row: list(own) for row, own in zip(rows, contexts, strict=True)}
        self._open(rows)
        return rows

    @torch.no_grad()
    def advance(self, numbers: Mapping[int, Tensor]) -> dict[int, Said]:
        """Continue to sample some rows."""
        self._read([row for row in numbers if row in self._unread])
        steps = Steps(
            [self._places[row] for row in numbers],
            limits=[len(own) for own in numbers.values()],
            uniform=stacked([*numbers.values()]),
            draw=self.draw,
            ends=self.ends,
        )
        self.library.rlcomp_generate(self.handle, ctypes.byref(steps.struct))
        turns = dict(zip(numbers, steps.said(), strict=True))
        for row, turn in turns.items():
            self.contexts[row] += turn.tokens
            self._unread[row] = turn.tokens[-1]
        return turns

    def renew(self) -> None:
        """Update copied weights; read the rows again if ``reread`` is set."""
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
        """Read all tokens of some rows."""
        if not rows:
            return
        places: dict[tuple[int, ...], int] = {}
        owners = [places.setdefault(tuple(self.contexts[row]), len(places)) for row in rows]
        tokens = abi.integers([token for prompt in places for token in prompt])
        lengths, owned = abi.integers([len(prompt) for prompt in places]), abi.integers(owners)
        self.library.rlcomp_open(
            self.handle,
            tokens.data_ptr(),
            lengths.data_ptr(),
            len(places),
            owned.data_ptr(),
            len(owners),
        )
        self._places |= {row: self._opened + n for n, row in enumerate(rows)}
        self._opened += len(rows)

    def _read(self, rows: Sequence[int]) -> None:
        """Read the last token of some rows."""
        if not rows:
            return
        tokens = abi.integers([self._unread.pop(row) for row in rows])
        counts, places = abi.integers([1] * len(rows)), [self._places[row] for row in rows]
        where = abi.integers(places)
        self.library.rlcomp_read(
            self.handle, where.data_ptr(), len(rows), tokens.data_ptr(), counts.data_ptr()
        )

    def _free(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.library.rlcomp_close(self.handle, self._places.pop(row))
            self._unread.pop(row, None)
