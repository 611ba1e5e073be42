"""Sessions and decode slots of the native library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.native.session import DecodeRequest, LibrarySession, StopConditions
from rlcomp.engine.native.weights import NativeModel
from rlcomp.engine.session import SamplingParams, TurnSample, join_turns
from rlcomp.engine.transformer import Transformer
from rlcomp.engine.uniforms import ForkUniforms, TurnUniforms, stack_numbers

# Steps of one library call. Random numbers are drawn for all of them, and unused draws are undone.
_STEPS_PER_CALL = 256


class NativeSession:
    """Session in which the native library computes keys and values of every token once.

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
        self.sampled = [0] * len(self.contexts)  # number of sampled tokens
        self.unread: list[list[int]] = [[] for _ in self.contexts]  # tokens not in the KV cache yet
        self.closed: set[int] = set()
        self.model = NativeModel(transformer, longest)
        self.longest = longest
        self.session: LibrarySession | None = None

    def extend(self, row: int, tokens: Sequence[int]) -> None:
        """Store tokens; a later forward pass covers them and the tokens of other rows."""
        self.contexts[row] += tokens
        if self.session is not None:
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
        if self.session is not None:
            self.session.fork(row)
        return len(self.contexts) - 1

    def close(self, rows: Sequence[int]) -> None:
        """Free the memory of rows.

        Raises:
            ValueError: a row does not exist.
        """
        self._check_rows(rows)
        self.closed.update(rows)
        if self.session is not None:
            self.session.close(rows)

    @torch.no_grad()
    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[TurnSample]:
        """Sample one turn in some rows and return it, row by row.

        Raises:
            ValueError: a row does not exist or is closed, a token is not in the vocabulary, or a
                row would exceed ``longest`` tokens.
        """
        self._check(rows, limits)
        counts = [self.sampled[row] for row in rows]
        numbers = TurnUniforms(self.uniforms, rows, counts)
        num_drawn = self.uniforms.draw_ahead(0)  # draws nothing: only the number of drawn steps
        ends = StopConditions(self.sampling.stops, texts, self.sampling.table)
        turns = [TurnSample([], [], True) for _ in rows]
        active, start = list(range(len(rows))), 0  # indices into ``rows``
        while active:
            session = self._read([rows[n] for n in active])
            steps = min(_STEPS_PER_CALL, max(limits[n] for n in active) - start)
            request = DecodeRequest(
                [rows[n] for n in active],
                limits=[limits[n] - start for n in active],
                uniform=numbers.steps_from(start, steps)[:, active, 0],
                draw=self.draw,
                ends=ends,
                continues=start > 0,
            )
            start += steps
            for n, part in zip(active, session.generate(request), strict=True):
                turns[n] = join_turns(turns[n], part)
                self.contexts[rows[n]] += part.tokens
                self.sampled[rows[n]] += len(part.tokens)
                self.unread[rows[n]] = [part.tokens[-1]]
            active = [n for n in active if turns[n].truncated and len(turns[n].tokens) < limits[n]]
        # The generator ends in the same state as after step-by-step draws.
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
        return self._read(rows).logits(rows)

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
            # The last token of a turn needs no forward pass: hence the - 1.
            if len(self.contexts[row]) + limit - 1 > self.longest:
                raise ValueError(
                    f"row {row} has {len(self.contexts[row])} tokens, and {limit} more exceed the "
                    f"maximum of {self.longest}: lower the limit"
                )
        vocabulary = range(self.model.vocabulary)
        # The first turn runs the forward pass on all rows.
        for tokens in self.contexts if self.session is None else [self.unread[row] for row in rows]:
            if tokens and (min(tokens) not in vocabulary or max(tokens) not in vocabulary):
                invalid = next(token for token in tokens if token not in vocabulary)
                raise ValueError(f"token {invalid} is not in the vocabulary: 0 to {vocabulary[-1]}")

    def _read(self, rows: Sequence[int]) -> LibrarySession:
        """Run the forward pass on the unread tokens of some rows; return the library's session."""
        if self.session is None:
            self.session = LibrarySession(self.model)
            self.session.open(self.contexts)
            self.session.close([*self.closed])
        if unread := {row: self.unread[row] for row in rows if self.unread[row]}:
            self.session.read(unread)
        for row in unread:
            self.unread[row] = []
        return self.session


class NativeSlots:
    """Decode slots of the native library.

    With the same numbers and weights a row's tokens are bitwise those of
    :func:`rlcomp.engine.decode_native.decode`, for any other rows in the slots.

    After a change of the weights, the cache keeps the keys and values of the old weights. With
    ``reread`` they are computed again, so that the log-prob of a token is the score of its row
    under the weights that sampled it.

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
        self.session = LibrarySession(self.model)
        self.contexts: dict[int, list[int]] = {}
        self._unread: dict[int, int] = {}  # last tokens that are not in the KV cache
        self._session_rows: dict[int, int] = {}  # the rows' indices in the library's session
        self._next = 0

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
        last = {row: self._unread.pop(row) for row in numbers if row in self._unread}
        if last:
            self.session.read({self._session_rows[row]: [token] for row, token in last.items()})
        request = DecodeRequest(
            [self._session_rows[row] for row in numbers],
            limits=[len(row_numbers) for row_numbers in numbers.values()],
            uniform=stack_numbers([*numbers.values()]),
            draw=self.draw,
            ends=self.ends,
        )
        turns = dict(zip(numbers, self.session.generate(request), strict=True))
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
        if rows:
            session_rows = self.session.open([self.contexts[row] for row in rows])
            self._session_rows |= dict(zip(rows, session_rows, strict=True))

    def _free(self, rows: Sequence[int]) -> None:
        self.session.close([self._session_rows.pop(row) for row in rows])
        for row in rows:
            self._unread.pop(row, None)
