"""Decode loop of one turn of a session, whose rows have different lengths."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.engine.decode_packed import size_of
from rlcomp.engine.draw import Draw, Drawn, Transcript
from rlcomp.engine.fused import Fused
from rlcomp.engine.ragged_cache import RaggedCache
from rlcomp.engine.session import TurnUniforms
from rlcomp.engine.stopping import StopRule

# Share of unfinished rows below which finished rows are dropped.
_WORTH = 0.75


class RaggedTurn:
    """One turn of the rows of a cache, one step at a time.

    Args:
        fused: the model.
        cache: of the rows; gets the sampled tokens, except the last of each row.
        logits: of the next token of each row.
        positions: of each row's next token.
        longest: tokens of the longest row that the model can read.
    """

    def __init__(
        self, fused: Fused, cache: RaggedCache, logits: Tensor, positions: Tensor, longest: int
    ) -> None:
        cache.begin_turn()
        self.fused = fused
        self.whole = self.cache = cache
        self.logits = logits
        self.positions = positions
        self.last = longest - 1
        self.forwards = 0

    def run(
        self, places: Sequence[int], stop: StopRule, draw: Draw, uniforms: TurnUniforms
    ) -> None:
        """Sample until every row has ended.

        Args:
            places: for each row its index among the rows that sample; -1 for a row that does not.
            stop: the rule by which rows end.
            draw: from logits and uniform numbers to tokens.
            uniforms: of the rows that sample.
        """
        self.transcript = Transcript(uniforms.rows)
        rows = list(range(len(places)))  # of the whole cache
        real = [row for row in rows if places[row] >= 0]
        start, steps = 0, list[Drawn]()
        while True:
            numbers = uniforms.at(start + len(steps))[[places[row] for row in rows]]
            drawn = draw(self.logits, numbers.to(self.fused.device))
            sampling = real if len(real) < len(rows) else None
            steps.append(drawn if sampling is None else _of(drawn, sampling))
            over = stop.take([places[rows[n]] for n in real], steps[-1].tokens)
            left = [n for n, ended in zip(real, over, strict=True) if not ended]
            if left and size_of(len(left)) > _WORTH * len(rows):
                self._step(drawn.tokens)
                continue
            self.transcript.write([places[rows[n]] for n in real], start, steps)
            start, steps = start + len(steps), []
            self._settle([rows[n] for n in real])
            if not left:
                return
            chosen = (left + left)[: size_of(len(left))]
            self._keep(chosen)
            rows, real = [rows[n] for n in chosen], list(range(len(left)))
            self._step(drawn.tokens[torch.tensor(chosen, device=drawn.tokens.device)])

    def _settle(self, rows: Sequence[int]) -> None:
        """Copy the tokens of a branch to the whole cache; ``rows`` are the branch's rows there."""
        if self.cache is not self.whole and self.forwards:
            self.whole.take_back(self.cache, rows, self.forwards)
        self.forwards = 0

    def _keep(self, rows: Sequence[int]) -> None:
        """Continue with some rows, in a cache of their own."""
        if self.cache is self.whole:
            self.cache = self.whole.branch(rows)
        else:
            self.cache.keep(rows)
        self.positions = self.positions[torch.tensor(rows, device=self.positions.device)]

    def _step(self, tokens: Tensor) -> None:
        """Forward one more token per row."""
        self.cache.grow()
        # A finished row, computed in vain, may be at the end of its context.
        x, rotation = self.fused.embed(tokens, self.positions.clamp(max=self.last))
        for number, block in enumerate(self.fused.blocks):
            q, k, v = block.project(x, rotation)
            x = block.finish(x, self.cache.attend(number, q, k, v, block.block.scale))
        self.logits = self.fused.logits(x)
        self.positions = self.positions + 1
        self.forwards += 1


def _of(drawn: Drawn, rows: Sequence[int]) -> Drawn:
    index = torch.tensor(rows, device=drawn.tokens.device)
    masks = None if drawn.kept is None else drawn.kept[index]
    return Drawn(drawn.tokens[index], drawn.log_probs[index], masks)
