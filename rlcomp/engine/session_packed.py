"""Native generation over turns: rows keep their keys and values from turn to turn."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.engine.decode_packed import read_prompts
from rlcomp.engine.decode_ragged import RaggedTurn
from rlcomp.engine.draw import ForkUniforms
from rlcomp.engine.fused import Fused
from rlcomp.engine.ragged_cache import RaggedCache
from rlcomp.engine.session import Said, Sampling, TurnUniforms, said_by
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.transformer import Transformer

# Share of unfinished rows below which finished rows are dropped and their memory is freed.
_WORTH = 0.75


class PackedSession:
    """A session that reads every token once.

    With the same generator it gives the tokens of :class:`rlcomp.engine.session.Rereading`, unless
    rounding of the logits changes one.

    Takes memory for one more copy of the model's layers, and for the keys and values of each
    distinct prompt, once, and of the later tokens of each row, until the session ends.

    Args:
        transformer: the model.
        contexts: a list of ids for each row, none empty; equal ones are read once.
        sampling: parameters of sampling.
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
        self.contexts = [list(context) for context in contexts]
        self.longest = longest
        self.sampling = sampling
        self.uniforms = ForkUniforms(len(self.contexts), sampling.generator, sampling.seeds)
        self.sampled = [0] * len(self.contexts)
        self.fused = Fused(transformer, longest)
        self.cache: RaggedCache | None = None
        self.rows = list(range(len(self.contexts)))  # the rows in the cache
        self.over: set[int] = set()
        self.unread: dict[int, list[int]] = {row: [] for row in self.rows}
        self.waiting: dict[int, Tensor] = {}  # logits of rows that have not sampled yet
        self.forked: dict[int, int] = {}  # forks without memory yet, and the rows they copy

    def extend(self, row: int, tokens: Sequence[int]) -> None:
        """Store the tokens; they are read later, together with tokens of other rows."""
        self.contexts[row] += tokens
        if self.cache is not None:
            self.unread[row] += tokens

    def fork(self, row: int) -> int:
        """Register a copy of a row; before the next turn, memory is copied for all of them at once.

        Raises:
            ValueError: the row is over.
        """
        if row in self.over:
            raise ValueError(f"row {row} is over: fork it before it is closed")
        new = len(self.contexts)
        self.contexts.append([*self.contexts[row]])
        self.sampled.append(0)
        self.uniforms.fork()
        self.unread[new] = [*self.unread[row]]
        if row in self.waiting:
            self.waiting[new] = self.waiting[row]
        if self.cache is None:
            self.rows.append(new)
        else:
            self.forked[new] = self.forked.get(row, row)
        return new

    def close(self, rows: Sequence[int]) -> None:
        """Mark rows as over."""
        self.over.update(rows)

    @torch.no_grad()
    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[Said]:
        """Sample one turn in some rows."""
        cache, logits = self._read(rows)
        stop = StopRule(self.sampling.stops, limits, texts, self.sampling.table)
        counts = [self.sampled[row] for row in rows]
        uniforms = TurnUniforms(self.uniforms, rows, counts)
        positions = torch.tensor([len(self.contexts[row]) for row in self.rows])
        turn = RaggedTurn(self.fused, cache, logits, positions.to(self.fused.device), self.longest)
        places = {row: place for place, row in enumerate(rows)}
        turn.run([places.get(row, -1) for row in self.rows], stop, self.sampling.draw, uniforms)
        turns = said_by(turn.transcript.sampled(stop))
        for row, each in zip(rows, turns, strict=True):
            self.contexts[row] += each.tokens
            self.sampled[row] += len(each.tokens)
        # A turn's last token is read with the tokens that follow it; tokens computed in vain are
        # dropped.
        read = [len(turns[places[row]].tokens) - 1 if row in places else 0 for row in self.rows]
        cache.end_turn(torch.tensor(read, device=self.fused.device))
        self.unread |= {row: [turns[place].tokens[-1]] for row, place in places.items()}
        return turns

    @torch.no_grad()
    def logits(self, rows: Sequence[int]) -> Tensor:
        """Read all unread tokens of the rows; the next turn or a fork need not read them again."""
        _, logits = self._read(rows)
        places = {row: place for place, row in enumerate(self.rows)}
        chosen = logits[[places[row] for row in rows]]
        self.waiting |= dict(zip(rows, chosen, strict=True))
        return chosen

    def _read(self, rows: Sequence[int]) -> tuple[RaggedCache, Tensor]:
        """Return the cache with all tokens of some rows, and the logits behind each row of it."""
        if self.cache is None:
            self.cache = self._open()
        return self.cache, self._logits(self.cache, rows)

    def _open(self) -> RaggedCache:
        """Read the contexts; equal ones are read once."""
        places: dict[tuple[int, ...], int] = {}
        owners = [places.setdefault(tuple(row), len(places)) for row in self.contexts]
        memory, logits = read_prompts(self.fused, [*places])
        lengths = [len(prompt) for prompt in places]
        self.waiting = {row: logits[owner] for row, owner in enumerate(owners)}
        # Twice: within a turn a short row's new tokens are behind the longest row.
        return RaggedCache(memory, lengths, owners, 2 * self.longest)

    def _logits(self, cache: RaggedCache, rows: Sequence[int]) -> Tensor:
        """Read unread tokens of the requested rows; return the logits of each row of the cache."""
        left = [row for row in [*self.rows, *self.forked] if row not in self.over]
        if self.forked or len(left) <= _WORTH * len(self.rows):
            places = {row: place for place, row in enumerate(self.rows)}
            cache.keep([places[self.forked.get(row, row)] for row in left])
            self.rows, self.forked = left, {}
        chosen = {*rows}
        new = [self.unread[row] if row in chosen else [] for row in self.rows]
        lengths = [len(self.contexts[row]) for row in self.rows]
        logits = dict(zip(self.rows, read_on(self.fused, cache, new, lengths), strict=True))
        for row in rows:
            known = self.waiting.pop(row, None)
            if known is not None and not self.unread[row]:
                logits[row] = known
            self.unread[row] = []
        return torch.stack([*logits.values()])


def read_on(
    fused: Fused, cache: RaggedCache, new: Sequence[Sequence[int]], lengths: Sequence[int]
) -> Tensor:
    """Read more tokens of some rows at once.

    Args:
        fused: the model.
        cache: of the rows; gets the tokens.
        new: the tokens of each row; empty where nothing is read.
        lengths: number of tokens of each row, new ones included.

    Returns:
        Logits behind each row, shape ``[R, V]``; 0 where nothing is read.
    """
    device, counts = fused.device, [len(row) for row in new]
    dtype = torch.promote_types(fused.like.dtype, torch.float32)
    logits = fused.like.new_zeros(len(new), len(fused.like), dtype=dtype)
    if not any(counts):
        return logits
    ids = torch.tensor([token for row in new for token in row], device=device)
    rows = torch.arange(len(new)).repeat_interleave(torch.tensor(counts)).to(device)
    number, bias, columns = cache.begin_read(rows, counts)
    starts = torch.tensor([n - count for n, count in zip(lengths, counts, strict=True)])
    ends = torch.tensor(counts, device=device).cumsum(0) - 1
    some = [row for row, count in enumerate(counts) if count]
    x, rotation = fused.embed(ids, starts.to(device)[rows] + number)
    for layer, block in enumerate(fused.blocks):
        q, k, v = block.project(x, rotation)
        cache.write(layer, rows, columns, k, v)
        wide = q.new_zeros(len(new), max(counts), *q.shape[1:])
        wide[rows, number] = q
        attended = cache.attend_some(layer, wide, bias, block.block.scale)[rows, number]
        if layer + 1 == len(fused.blocks):
            x, attended = x[ends[some]], attended[ends[some]]
        x = block.finish(x, attended)
    logits[some] = fused.logits(x)
    return logits
