"""Generation over turns in C++: rows keep their keys and values from turn to turn."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.engine.draw import ForkUniforms, TokenDraw
from rlcomp.engine.native import abi
from rlcomp.engine.native.library import library
from rlcomp.engine.native.turn import Ends, Steps
from rlcomp.engine.native.weights import NativeModel
from rlcomp.engine.session import Said, Sampling, TurnUniforms, joined
from rlcomp.engine.transformer import Transformer

# Steps of a call: numbers are drawn for all of them; unused ones are given back.
_STEPS = 256


class NativeSession:
    """A session that reads every token once, by the native library.

    With the same generator it gives the tokens of
    :class:`rlcomp.engine.session_packed.PackedSession`, unless rounding of the logits changes one.
    The tokens and log-probs of a row are the same to the last bit, whatever other rows there are
    and however its context is cut into turns.

    Takes memory for the keys and values of each distinct prompt, once, and of the later tokens of
    each row, in pages of 32 tokens, until the row is closed; forks share full pages. Weights are
    read in place: they must not change before the session ends.

    Args:
        transformer: the model.
        contexts: a list of ids for each row, none empty; equal ones are read once.
        sampling: parameters; the draw is a :class:`rlcomp.engine.draw.TokenDraw` without filters.
        longest: the most tokens of a row.
    """

    def __init__(
        self,
        transformer: Transformer,
        contexts: Sequence[Sequence[int]],
        sampling: Sampling,
        *,
        longest: int,
    ) -> None:
        assert isinstance(sampling.draw, TokenDraw)
        self.contexts = [list(context) for context in contexts]
        self.sampling = sampling
        self.draw = sampling.draw
        self.uniforms = ForkUniforms(len(self.contexts), sampling.generator, sampling.seeds)
        self.sampled = [0] * len(self.contexts)
        self.unread: list[list[int]] = [[] for _ in self.contexts]
        self.over: set[int] = set()
        self.model = NativeModel(transformer, longest)
        self.longest = longest
        self.library = library()
        self.handle: ctypes.c_void_p | None = None

    def extend(self, row: int, tokens: Sequence[int]) -> None:
        """Store the tokens; they are read later, together with tokens of other rows."""
        self.contexts[row] += tokens
        if self.handle is not None:
            self.unread[row] += tokens

    def fork(self, row: int) -> int:
        """Copy a row; a shared page is copied when one of the two rows writes to it.

        Raises:
            ValueError: the row is over.
        """
        if row in self.over:
            raise ValueError(f"row {row} is over: fork it before it is closed")
        self.contexts.append([*self.contexts[row]])
        self.unread.append([*self.unread[row]])
        self.sampled.append(0)
        self.uniforms.fork()
        if self.handle is not None:
            self.library.rlcomp_fork(self.handle, row, ctypes.byref(ctypes.c_int64()))
        return len(self.contexts) - 1

    def close(self, rows: Sequence[int]) -> None:
        """Free the memory of rows.

        Raises:
            ValueError: there is no such row.
        """
        self._check_rows(rows)
        self.over.update(rows)
        if self.handle is not None:
            for row in rows:
                self.library.rlcomp_close(self.handle, row)

    @torch.no_grad()
    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[Said]:
        """Sample one turn in some rows.

        Raises:
            ValueError: there is no such row or it is over, a token is not the model's, or a turn
                exceeds the longest row. The library would read and write outside its memory.
        """
        self._check(rows, limits)
        counts = [self.sampled[row] for row in rows]
        numbers = TurnUniforms(self.uniforms, rows, counts)
        known = self.uniforms.ahead(0)
        ends = Ends(self.sampling.stops, texts, self.sampling.table)
        turns = [Said([], [], True) for _ in rows]
        left, start = list(range(len(rows))), 0  # indices into ``rows``
        while left:
            self._read([rows[n] for n in left])
            steps = min(_STEPS, max(limits[n] for n in left) - start)
            call = Steps(
                [rows[n] for n in left],
                limits=[limits[n] - start for n in left],
                uniform=numbers.some(start, steps)[:, left, 0],
                draw=self.draw,
                ends=ends,
                goes_on=start > 0,
            )
            self.library.rlcomp_generate(self.handle, ctypes.byref(call.struct))
            start += steps
            for n, more in zip(left, call.said(), strict=True):
                turns[n] = joined(turns[n], more)
                self.contexts[rows[n]] += more.tokens
                self.sampled[rows[n]] += len(more.tokens)
                self.unread[rows[n]] = [more.tokens[-1]]
            left = [n for n in left if turns[n].truncated and len(turns[n].tokens) < limits[n]]
        # As if the numbers of each step had been drawn with it.
        longest = max(len(turn.tokens) for turn in turns)
        self.uniforms.rewind(max(known, max(counts) + longest))
        return turns

    @torch.no_grad()
    def logits(self, rows: Sequence[int]) -> Tensor:
        """Read all unread tokens of the rows; the next turn or a fork need not read them again.

        Raises:
            ValueError: as in :meth:`generate`.
        """
        self._check(rows, [1] * len(rows))
        self._read(rows)
        logits = torch.empty(len(rows), self.model.vocabulary, dtype=torch.float32)
        places = abi.integers(rows)
        self.library.rlcomp_logits(self.handle, places.data_ptr(), len(rows), logits.data_ptr())
        return logits

    def _check_rows(self, rows: Sequence[int]) -> None:
        for row in rows:
            if row not in range(len(self.contexts)):
                raise ValueError(f"there is no row {row}: the session has {len(self.contexts)}")

    def _check(self, rows: Sequence[int], limits: Sequence[int]) -> None:
        self._check_rows(rows)
        for row, limit in zip(rows, limits, strict=True):
            if row in self.over:
                raise ValueError(f"row {row} is over: sample before it is closed")
            # A turn's last token is read with the tokens that follow it.
            if len(self.contexts[row]) + limit - 1 > self.longest:
                raise ValueError(
                    f"row {row} has {len(self.contexts[row])} tokens, which leave no room for "
                    f"{limit} more: the longest row has {self.longest}"
                )
        known = range(self.model.vocabulary)
        # Before the first turn all rows are read.
        for new in self.contexts if self.handle is None else [self.unread[row] for row in rows]:
            if new and (min(new) not in known or max(new) not in known):
                wrong = next(token for token in new if token not in known)
                raise ValueError(f"token {wrong} is none of the model's, 0 to {known[-1]}")

    def _read(self, rows: Sequence[int]) -> None:
        """Read all tokens of some rows."""
        if self.handle is None:
            self._open()
        new = [row for row in rows if self.unread[row]]
        if not new:
            return
        tokens = abi.integers([token for row in new for token in self.unread[row]])
        counts = abi.integers([len(self.unread[row]) for row in new])
        places = abi.integers(new)
        self.library.rlcomp_read(
            self.handle, places.data_ptr(), len(new), tokens.data_ptr(), counts.data_ptr()
        )
        for row in new:
            self.unread[row] = []

    def _open(self) -> None:
        """Read the contexts; equal ones are read once."""
        places: dict[tuple[int, ...], int] = {}
        owners = [places.setdefault(tuple(row), len(places)) for row in self.contexts]
        handle = ctypes.c_void_p()
        self.library.rlcomp_session(self.model.pointer, ctypes.byref(handle))
        self.handle = handle
        weakref.finalize(self, self.library.rlcomp_free, handle)
        tokens = abi.integers([token for prompt in places for token in prompt])
        lengths = abi.integers([len(prompt) for prompt in places])
        rows = abi.integers(owners)
        self.library.rlcomp_open(
            handle, tokens.data_ptr(), lengths.data_ptr(), len(places), rows.data_ptr(), len(owners)
        )
        self.close([*self.over])
