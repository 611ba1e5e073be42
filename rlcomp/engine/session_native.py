"""Generation over several turns in C++, with a KV cache that lasts from turn to turn."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.native import abi
from rlcomp.engine.native.library import library
from rlcomp.engine.native.turn import DecodeRequest, StopConditions
from rlcomp.engine.native.weights import NativeModel
from rlcomp.engine.session import SamplingParams, TurnSample, join_turns
from rlcomp.engine.transformer import Transformer
from rlcomp.engine.uniforms import ForkUniforms, TurnUniforms

# Steps of one library call. Random numbers are drawn for all of them; the unused ones are undone.
_STEPS_PER_CALL = 256


class NativeSession:
    """Session in which the native library computes every token once.

    With the same generator it gives the tokens of
    :class:`rlcomp.engine.session_packed.PackedSession`, unless rounding of the logits changes one.
    A row's tokens and log-probs are bitwise the same for any other rows of the session, and for any
    split of its context into turns.

    Memory: keys and values of each distinct prompt, once, and of the later tokens of each row, in
    pages of 32 tokens, until the row is closed. Forks share full pages. The library reads the
    weights in place: they must not change before the session ends.

    Args:
        transformer: the model.
        contexts: a non-empty list of token ids for each row; equal contexts are computed once.
        sampling: the sampling parameters; the draw is a :class:`rlcomp.engine.draw.TokenDraw`
            without filters.
        longest: maximum number of tokens of a row.
    """

    def __init__(
        self,
        transformer: Transformer,
        contexts: Sequence[Sequence[int]],
        sampling: SamplingParams,
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
        self.closed: set[int] = set()
        self.model = NativeModel(transformer, longest)
        self.longest = longest
        self.library = library()
        self.handle: ctypes.c_void_p | None = None

    def extend(self, row: int, tokens: Sequence[int]) -> None:
        """Store the tokens; a later call computes them together with tokens of other rows."""
        self.contexts[row] += tokens
        if self.handle is not None:
            self.unread[row] += tokens

    def fork(self, row: int) -> int:
        """Add a copy of a row and return its index.

        The rows share pages; a page is copied when one of the rows writes to it.

        Raises:
            ValueError: the row is closed.
        """
        if row in self.closed:
            raise ValueError(f"row {row} is closed: fork it before closing it")
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
            ValueError: a row does not exist.
        """
        self._check_rows(rows)
        self.closed.update(rows)
        if self.handle is not None:
            for row in rows:
                self.library.rlcomp_close(self.handle, row)

    @torch.no_grad()
    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[TurnSample]:
        """Sample one turn in some rows and return it, row by row.

        Raises:
            ValueError: a row does not exist or is closed, a token is not in the vocabulary, or a
                turn exceeds the longest row. The library itself does not check its memory bounds.
        """
        self._check(rows, limits)
        counts = [self.sampled[row] for row in rows]
        numbers = TurnUniforms(self.uniforms, rows, counts)
        num_drawn = self.uniforms.draw_ahead(0)
        ends = StopConditions(self.sampling.stops, texts, self.sampling.table)
        turns = [TurnSample([], [], True) for _ in rows]
        active, start = list(range(len(rows))), 0  # indices into ``rows``
        while active:
            self._read([rows[n] for n in active])
            steps = min(_STEPS_PER_CALL, max(limits[n] for n in active) - start)
            call = DecodeRequest(
                [rows[n] for n in active],
                limits=[limits[n] - start for n in active],
                uniform=numbers.steps_from(start, steps)[:, active, 0],
                draw=self.draw,
                ends=ends,
                goes_on=start > 0,
            )
            self.library.rlcomp_generate(self.handle, ctypes.byref(call.struct))
            start += steps
            for n, more in zip(active, call.turns(), strict=True):
                turns[n] = join_turns(turns[n], more)
                self.contexts[rows[n]] += more.tokens
                self.sampled[rows[n]] += len(more.tokens)
                self.unread[rows[n]] = [more.tokens[-1]]
            active = [n for n in active if turns[n].truncated and len(turns[n].tokens) < limits[n]]
        # The generator ends in the state that step-by-step draws leave it in.
        longest = max(len(turn.tokens) for turn in turns)
        self.uniforms.rewind(max(num_drawn, max(counts) + longest))
        return turns

    @torch.no_grad()
    def logits(self, rows: Sequence[int]) -> Tensor:
        """Return the logits of the next token of some rows, shape ``[len(rows), V]``.

        The rows' unread tokens enter the KV cache, so that the next turn does not compute them.

        Raises:
            ValueError: an argument is invalid (:meth:`generate`).
        """
        self._check(rows, [1] * len(rows))
        self._read(rows)
        logits = torch.empty(len(rows), self.model.vocabulary, dtype=torch.float32)
        row_indices = abi.int64_tensor(rows)
        self.library.rlcomp_logits(
            self.handle, row_indices.data_ptr(), len(rows), logits.data_ptr()
        )
        return logits

    def _check_rows(self, rows: Sequence[int]) -> None:
        for row in rows:
            if row not in range(len(self.contexts)):
                raise ValueError(
                    f"row {row} does not exist: the session has {len(self.contexts)} rows"
                )

    def _check(self, rows: Sequence[int], limits: Sequence[int]) -> None:
        self._check_rows(rows)
        for row, limit in zip(rows, limits, strict=True):
            if row in self.closed:
                raise ValueError(f"row {row} is closed: sample it before closing it")
            # A turn's last token is computed only with the tokens that follow it: hence the - 1.
            if len(self.contexts[row]) + limit - 1 > self.longest:
                raise ValueError(
                    f"row {row} has {len(self.contexts[row])} tokens, and {limit} more exceed the "
                    f"maximum of {self.longest}: lower the limit"
                )
        vocabulary = range(self.model.vocabulary)
        # The first turn computes all rows.
        for new in self.contexts if self.handle is None else [self.unread[row] for row in rows]:
            if new and (min(new) not in vocabulary or max(new) not in vocabulary):
                invalid = next(token for token in new if token not in vocabulary)
                raise ValueError(f"token {invalid} is not in the vocabulary: 0 to {vocabulary[-1]}")

    def _read(self, rows: Sequence[int]) -> None:
        """Compute the unread tokens of some rows; their keys and values enter the KV cache."""
        if self.handle is None:
            self._open()
        unread_rows = [row for row in rows if self.unread[row]]
        if not unread_rows:
            return
        tokens = abi.int64_tensor([token for row in unread_rows for token in self.unread[row]])
        counts = abi.int64_tensor([len(self.unread[row]) for row in unread_rows])
        row_indices = abi.int64_tensor(unread_rows)
        self.library.rlcomp_read(
            self.handle,
            row_indices.data_ptr(),
            len(unread_rows),
            tokens.data_ptr(),
            counts.data_ptr(),
        )
        for row in unread_rows:
            self.unread[row] = []

    def _open(self) -> None:
        """Open the library's session and compute the contexts; equal contexts are computed once."""
        prompts: dict[tuple[int, ...], int] = {}  # distinct contexts and their indices
        owners = [prompts.setdefault(tuple(row), len(prompts)) for row in self.contexts]
        handle = ctypes.c_void_p()
        self.library.rlcomp_session(self.model.pointer, ctypes.byref(handle))
        self.handle = handle
        weakref.finalize(self, self.library.rlcomp_free, handle)
        tokens = abi.int64_tensor([token for prompt in prompts for token in prompt])
        lengths = abi.int64_tensor([len(prompt) for prompt in prompts])
        rows = abi.int64_tensor(owners)
        self.library.rlcomp_open(
            handle,
            tokens.data_ptr(),
            lengths.data_ptr(),
            len(prompts),
            rows.data_ptr(),
            len(owners),
        )
        self.close([*self.closed])
