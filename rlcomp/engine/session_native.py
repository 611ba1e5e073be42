"""Generation over turns in C++: keys and values of every row stay from turn to turn."""

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

# Steps of a call: numbers are drawn for all of them, and given back where rows end earlier.
_STEPS = 256


class NativeSession:
    """A session that reads every token once, by the native library.

    From the same generator it gives the tokens of
    :class:`rlcomp.engine.session_packed.PackedSession`, as far as rounding leaves the logits alike.
    A row's tokens and log-probs are the same to the last bit whatever other rows there are, and
    however its context is cut into turns.

    Takes memory for the keys and values of each distinct prompt once and of what follows in each
    row, in pages of 32 tokens, until the row is closed; forks share full pages. Weights are read
    where they are: they must not change before the session ends.

    Args:
        transformer: the model.
        contexts: a list of ids for each row, none empty; equal ones are read once.
        sampling: how they are sampled; by a :class:`rlcomp.engine.draw.TokenDraw` without filters.
        longest: no row gets more tokens.
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
        """Note the tokens: they are read with those of other rows."""
        self.contexts[row] += tokens
        if self.handle is not None:
            self.unread[row] += tokens

    def fork(self, row: int) -> int:
        """Copy a row; what is read is copied once one of the two writes behind it.

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
        """Free what rows hold.

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
                leads beyond the longest row. The library would read and write beside its memory.
        """
        self._check(rows, limits)
        counts = [self.sampled[row] for row in rows]
        numbers = TurnUniforms(self.uniforms, rows, counts)
        known = self.uniforms.ahead(0)
        ends = Ends(self.sampling.stops, texts, self.sampling.table)
        said = [Said([], [], True) for _ in rows]
        left, start = list(range(len(rows))), 0  # places among the rows
        while left:
            self._read([rows[n] for n in left])
            steps = min(_STEPS, max(limits[n] for n in left) - start)
            found = Steps(
                [rows[n] for n in left],
                limits=[limits[n] - start for n in left],
                uniform=numbers.some(start, steps)[:, left, 0],
                draw=self.draw,
                ends=ends,
                goes_on=start > 0,
            )
            self.library.rlcomp_generate(self.handle, ctypes.byref(found.struct))
            start += steps
            for n, more in zip(left, found.said(), strict=True):
                said[n] = joined(said[n], more)
                self.contexts[rows[n]] += more.tokens
                self.sampled[rows[n]] += len(more.tokens)
                self.unread[rows[n]] = [more.tokens[-1]]
            left = [n for n in left if said[n].truncated and len(said[n].tokens) < limits[n]]
        # As if a step's numbers had been drawn with it.
        longest = max(len(turn.tokens) for turn in said)
        self.uniforms.rewind(max(known, max(counts) + longest))
        return said

    @torch.no_grad()
    def logits(self, rows: Sequence[int]) -> Tensor:
        """Read what the rows have not read yet; the next turn, or a fork, need not do so again.

        Raises:
            ValueError: as by :meth:`generate`.
        """
        self._check(rows, [1] * len(rows))
        self._read(rows)
        found = torch.empty(len(rows), self.model.vocabulary, dtype=torch.float32)
        places = abi.integers(rows)
        self.library.rlcomp_logits(self.handle, places.data_ptr(), len(rows), found.data_ptr())
        return found

    def _check_rows(self, rows: Sequence[int]) -> None:
        for row in rows:
            if row not in range(len(self.contexts)):
                raise ValueError(f"there is no row {row}: the session has {len(self.contexts)}")

    def _check(self, rows: Sequence[int], limits: Sequence[int]) -> None:
        self._check_rows(rows)
        for row, limit in zip(rows, limits, strict=True):
            if row in self.over:
                raise ValueError(f"row {row} is over: sample before it is closed")
            # A turn's last token is read with what follows it.
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
        """Read the contexts, equal ones once."""
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
