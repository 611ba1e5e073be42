"""Decode loop of one turn of a session, whose rows have different lengths."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.engine.decode_packed import padded_size
from rlcomp.engine.draw import Draw, SampledTokens, Transcript
from rlcomp.engine.fused import Fused
from rlcomp.engine.ragged_cache import RaggedCache
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.uniforms import TurnUniforms

# The loop drops finished rows when at most this share of its rows is unfinished.
_COMPACT_BELOW = 0.75


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
        self.full_cache = self.cache = cache
        self.logits = logits
        self.positions = positions
        self.last = longest - 1
        self.forwards = 0

    def run(
        self, turn_indices: Sequence[int], stop: StopRule, draw: Draw, uniforms: TurnUniforms
    ) -> None:
        """Sample until every row has ended.

        Args:
            turn_indices: for each row of the cache its index in the turn; -1 if it does not sample.
            stop: the rule that ends rows.
            draw: maps logits and uniform numbers to tokens.
            uniforms: uniform numbers of the rows of the turn.
        """
        self.transcript = Transcript(uniforms.rows)
        rows = list(range(len(turn_indices)))  # indices in the full cache
        active = [row for row in rows if turn_indices[row] >= 0]
        start, steps = 0, list[SampledTokens]()
        while True:
            numbers = uniforms.at(start + len(steps))[[turn_indices[row] for row in rows]]
            drawn = draw(self.logits, numbers.to(self.fused.device))
            sampling = active if len(active) < len(rows) else None
            steps.append(drawn if sampling is None else _select_rows(drawn, sampling))
            over = stop.take([turn_indices[rows[n]] for n in active], steps[-1].tokens)
            unfinished = [n for n, ended in zip(active, over, strict=True) if not ended]
            if unfinished and padded_size(len(unfinished)) > _COMPACT_BELOW * len(rows):
                self._step(drawn.tokens)
                continue
            self.transcript.write([turn_indices[rows[n]] for n in active], start, steps)
            start, steps = start + len(steps), []
            self._settle([rows[n] for n in active])
            if not unfinished:
                return
            chosen = (unfinished + unfinished)[: padded_size(len(unfinished))]
            self._keep(chosen)
            rows, active = [rows[n] for n in chosen], list(range(len(unfinished)))
            self._step(drawn.tokens[torch.tensor(chosen, device=drawn.tokens.device)])

    def _settle(self, rows: Sequence[int]) -> None:
        """Copy the tokens of a branch to the full cache; ``rows`` are the branch's rows there."""
        if self.cache is not self.full_cache and self.forwards:
            self.full_cache.take_back(self.cache, rows, self.forwards)
        self.forwards = 0

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
        x, rotation = self.fused.embed(tokens, self.positions.clamp(max=self.last))
        for number, block in enumerate(self.fused.blocks):
            q, k, v = block.project(x, rotation)
            x = block.finish(x, self.cache.attend(number, q, k, v, block.block.scale))
        self.logits = self.fused.logits(x)
        self.positions = self.positions + 1
        self.forwards += 1


def _select_rows(drawn: SampledTokens, rows: Sequence[int]) -> SampledTokens:
    index = torch.tensor(rows, device=drawn.tokens.device)
    masks = None if drawn.sampling_mask is None else drawn.sampling_mask[index]
    return SampledTokens(drawn.tokens[index], drawn.log_probs[index], masks)
