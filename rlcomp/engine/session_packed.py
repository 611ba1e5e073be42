"""Session in PyTorch, with a KV cache that lasts from turn to turn."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.engine.decode_packed import padded_size, prefill
from rlcomp.engine.draw import Draw, SampledTokens, Transcript
from rlcomp.engine.fused import Fused
from rlcomp.engine.ragged_cache import RaggedCache
from rlcomp.engine.session import SamplingParams, TurnSample, split_by_row
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.transformer import Transformer
from rlcomp.engine.uniforms import ForkUniforms, TurnUniforms

# Closed or finished rows are dropped when at most this share of the rows remains.
_COMPACT_BELOW = 0.75


class PackedSession:
    """Session that computes every token once.

    It samples the tokens of :class:`rlcomp.engine.session.RecomputeSession`, up to rounding of the
    logits.

    Memory: a copy of the model's layers, and keys and values of each distinct prompt, once, and of
    the later tokens of each row.

    Args:
        transformer: the model.
        contexts: a non-empty list of token ids for each row; equal contexts are computed once.
        sampling: the sampling parameters.
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
        self.contexts = [list(context) for context in contexts]
        self.longest = longest
        self.sampling = sampling
        self.uniforms = ForkUniforms(len(self.contexts), sampling.generator, sampling.seeds)
        self.sampled = [0] * len(self.contexts)
        self.fused = Fused(transformer, longest)
        self.cache: RaggedCache | None = None
        self.rows = list(range(len(self.contexts)))  # the rows in the cache
        self.closed: set[int] = set()
        self.unread: dict[int, list[int]] = {row: [] for row in self.rows}  # not in the cache yet
        # Next-token logits that no turn has used.
        self.pending_logits: dict[int, Tensor] = {}
        # Forks that are not in the cache yet, and the rows of the cache to copy.
        self.pending_forks: dict[int, int] = {}

    def extend(self, row: int, tokens: Sequence[int]) -> None:
        """Store the tokens; a later call computes them together with tokens of other rows."""
        self.contexts[row] += tokens
        if self.cache is not None:
            self.unread[row] += tokens

    def fork(self, row: int) -> int:
        """Add a copy of a row and return its index; the next turn copies the memory of all forks.

        Raises:
            ValueError: the row is closed.
        """
        if row in self.closed:
            raise ValueError(f"row {row} is closed: fork it before closing it")
        new = len(self.contexts)
        self.contexts.append([*self.contexts[row]])
        self.sampled.append(0)
        self.uniforms.fork()
        self.unread[new] = [*self.unread[row]]
        if row in self.pending_logits:
            self.pending_logits[new] = self.pending_logits[row]
        if self.cache is None:
            self.rows.append(new)
        else:
            self.pending_forks[new] = self.pending_forks.get(row, row)
        return new

    def close(self, rows: Sequence[int]) -> None:
        """Mark rows as closed; a later turn frees their memory."""
        self.closed.update(rows)

    @torch.no_grad()
    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[TurnSample]:
        """Sample one turn in some rows and return it, row by row."""
        cache, logits = self._read(rows)
        stop = StopRule(self.sampling.stops, limits, texts, self.sampling.table)
        counts = [self.sampled[row] for row in rows]
        uniforms = TurnUniforms(self.uniforms, rows, counts)
        positions = torch.tensor([len(self.contexts[row]) for row in self.rows])
        turn = RaggedTurn(self.fused, cache, logits, positions.to(self.fused.device), self.longest)
        index_of_row = {row: index for index, row in enumerate(rows)}
        turn_indices = [index_of_row.get(row, -1) for row in self.rows]
        turn.run(turn_indices, stop, self.sampling.draw, uniforms)
        turns = split_by_row(turn.transcript.responses(stop))
        for row, sample in zip(rows, turns, strict=True):
            self.contexts[row] += sample.tokens
            self.sampled[row] += len(sample.tokens)
        # A turn's last token is computed with the tokens that follow it. The cache drops the steps
        # after a row's end.
        num_computed = [0 if n < 0 else len(turns[n].tokens) - 1 for n in turn_indices]
        cache.end_turn(torch.tensor(num_computed, device=self.fused.device))
        self.unread |= {row: [turns[n].tokens[-1]] for row, n in index_of_row.items()}
        return turns

    @torch.no_grad()
    def logits(self, rows: Sequence[int]) -> Tensor:
        """Return the logits of the next token of some rows, shape ``[len(rows), V]``.

        The next turn or a fork uses the stored logits.
        """
        _, logits = self._read(rows)
        cache_indices = {row: index for index, row in enumerate(self.rows)}
        row_logits = logits[[cache_indices[row] for row in rows]]
        self.pending_logits |= dict(zip(rows, row_logits, strict=True))
        return row_logits

    def _read(self, rows: Sequence[int]) -> tuple[RaggedCache, Tensor]:
        """Compute unread tokens of some rows; return the cache and its next-token logits."""
        if self.cache is None:
            self.cache = self._open()
        return self.cache, self._logits(self.cache, rows)

    def _open(self) -> RaggedCache:
        """Compute the contexts, equal ones once; return their cache."""
        prompts: dict[tuple[int, ...], int] = {}  # distinct contexts and their indices
        owners = [prompts.setdefault(tuple(row), len(prompts)) for row in self.contexts]
        memory, logits = prefill(self.fused, [*prompts])
        lengths = [len(prompt) for prompt in prompts]
        self.pending_logits = {row: logits[owner] for row, owner in enumerate(owners)}
        # Twice the longest: within a turn, new tokens of a short row are behind the longest row.
        return RaggedCache(memory, lengths, owners, 2 * self.longest)

    def _logits(self, cache: RaggedCache, rows: Sequence[int]) -> Tensor:
        """Compute unread tokens of some rows; return the logits of each row of the cache.

        First adds the forks to the cache; drops closed rows if they are many or there are forks.
        The logits of other rows are 0.
        """
        open_rows = [row for row in [*self.rows, *self.pending_forks] if row not in self.closed]
        if self.pending_forks or len(open_rows) <= _COMPACT_BELOW * len(self.rows):
            cache_indices = {row: index for index, row in enumerate(self.rows)}
            cache.keep([cache_indices[self.pending_forks.get(row, row)] for row in open_rows])
            self.rows, self.pending_forks = open_rows, {}
        requested = {*rows}
        new = [self.unread[row] if row in requested else [] for row in self.rows]
        lengths = [len(self.contexts[row]) for row in self.rows]
        logits = dict(
            zip(self.rows, read_more_tokens(self.fused, cache, new, lengths), strict=True)
        )
        for row in rows:
            pending = self.pending_logits.pop(row, None)
            if pending is not None and not self.unread[row]:
                logits[row] = pending
            self.unread[row] = []
        return torch.stack([*logits.values()])


def read_more_tokens(
    fused: Fused, cache: RaggedCache, new: Sequence[Sequence[int]], lengths: Sequence[int]
) -> Tensor:
    """Compute more tokens of some rows in one pass; their keys and values enter the cache.

    Args:
        fused: the model.
        cache: KV cache of the rows.
        new: the new tokens of each row; empty for rows without new tokens.
        lengths: number of tokens of each row, including the new tokens.

    Returns:
        Next-token logits of each row, shape ``[R, V]``; 0 for rows without new tokens.
    """
    device, counts = fused.device, [len(row) for row in new]
    dtype = torch.promote_types(fused.like.dtype, torch.float32)
    logits = fused.like.new_zeros(len(new), len(fused.like), dtype=dtype)
    if not any(counts):
        return logits
    ids = torch.tensor([token for row in new for token in row], device=device)
    rows = torch.arange(len(new)).repeat_interleave(torch.tensor(counts)).to(device)
    offsets, bias, columns = cache.begin_read(rows, counts)
    starts = torch.tensor([n - count for n, count in zip(lengths, counts, strict=True)])
    ends = torch.tensor(counts, device=device).cumsum(0) - 1
    read_rows = [row for row, count in enumerate(counts) if count]
    x, rotation = fused.embed(ids, starts.to(device)[rows] + offsets)
    for layer, block in enumerate(fused.blocks):
        q, k, v = block.project(x, rotation)
        cache.write(layer, rows, columns, k, v)
        padded = q.new_zeros(len(new), max(counts), *q.shape[1:])
        padded[rows, offsets] = q
        attended = cache.attend_padded(layer, padded, bias, block.block.scale)[rows, offsets]
        if layer + 1 == len(fused.blocks):
            x, attended = x[ends[read_rows]], attended[ends[read_rows]]
        x = block.finish(x, attended)
    logits[read_rows] = fused.logits(x)
    return logits


class RaggedTurn:
    """Decode loop of one turn over the rows of a cache.

    Args:
        fused: the model.
        cache: KV cache of the rows; gets the sampled tokens, except the last of each row.
        logits: logits of the next token of each row, shape ``[R, V]``.
        positions: position of each row's next token, shape ``[R]``.
        longest: maximum number of tokens of a row.
    """

    def __init__(
        self, fused: Fused, cache: RaggedCache, logits: Tensor, positions: Tensor, longest: int
    ) -> None:
        cache.begin_turn()
        self.fused = fused
        # ``cache`` becomes a smaller branch of the full cache when rows have finished.
        self.full_cache = self.cache = cache
        self.logits = logits
        self.positions = positions
        self.last_position = longest - 1
        self.unmerged_steps = 0  # steps of the branch that the full cache does not have

    def run(
        self, turn_indices: Sequence[int], stop: StopRule, draw: Draw, uniforms: TurnUniforms
    ) -> None:
        """Sample until every row has ended.

        Args:
            turn_indices: index in the turn of each row of the cache; -1 if it does not sample.
            stop: the rule that ends rows.
            draw: maps logits and uniform numbers to tokens.
            uniforms: uniform numbers of the rows of the turn.
        """
        self.transcript = Transcript(uniforms.rows)
        rows = list(range(len(turn_indices)))  # indices in the full cache
        # Indices into ``rows``: the others do not sample, or are padding.
        active = [row for row in rows if turn_indices[row] >= 0]
        start, steps = 0, list[SampledTokens]()
        while True:
            numbers = uniforms.at(start + len(steps))[[turn_indices[row] for row in rows]]
            drawn = draw(self.logits, numbers.to(self.fused.device))
            sampling = active if len(active) < len(rows) else None
            steps.append(drawn if sampling is None else _select_rows(drawn, sampling))
            finished = stop.take([turn_indices[rows[n]] for n in active], steps[-1].tokens)
            unfinished = [n for n, ended in zip(active, finished, strict=True) if not ended]
            if unfinished and padded_size(len(unfinished)) > _COMPACT_BELOW * len(rows):
                self._step(drawn.tokens)
                continue
            self.transcript.write([turn_indices[rows[n]] for n in active], start, steps)
            start, steps = start + len(steps), []
            self._merge_branch([rows[n] for n in active])
            if not unfinished:
                return
            chosen = (unfinished + unfinished)[: padded_size(len(unfinished))]
            self._keep(chosen)
            rows, active = [rows[n] for n in chosen], list(range(len(unfinished)))
            self._step(drawn.tokens[torch.tensor(chosen, device=drawn.tokens.device)])

    def _merge_branch(self, rows: Sequence[int]) -> None:
        """Copy new tokens to the full cache, to the given rows."""
        if self.cache is not self.full_cache and self.unmerged_steps:
            self.full_cache.merge(self.cache, rows, self.unmerged_steps)
        self.unmerged_steps = 0

    def _keep(self, rows: Sequence[int]) -> None:
        """Continue with some rows in a smaller cache."""
        if self.cache is self.full_cache:
            self.cache = self.full_cache.branch(rows)
        else:
            self.cache.keep(rows)
        self.positions = self.positions[torch.tensor(rows, device=self.positions.device)]

    def _step(self, tokens: Tensor) -> None:
        """Compute one more token of each row."""
        self.cache.grow()
        # A finished row may be at the end of its context; its result is not used.
        x, rotation = self.fused.embed(tokens, self.positions.clamp(max=self.last_position))
        for number, block in enumerate(self.fused.blocks):
            q, k, v = block.project(x, rotation)
            x = block.finish(x, self.cache.attend(number, q, k, v, block.block.scale))
        self.logits = self.fused.logits(x)
        self.positions = self.positions + 1
        self.unmerged_steps += 1


def _select_rows(drawn: SampledTokens, rows: Sequence[int]) -> SampledTokens:
    index = torch.tensor(rows, device=drawn.tokens.device)
    masks = None if drawn.sampling_mask is None else drawn.sampling_mask[index]
    return SampledTokens(drawn.tokens[index], drawn.log_probs[index], masks)
