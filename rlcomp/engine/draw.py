"""Token draws of the decode loop, and the responses assembled from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlcomp.engine.decoding import Decoding, filtered, sample
from rlcomp.engine.rng_slice import PartGenerator
from rlcomp.engine.sampling_mask import pack
from rlcomp.engine.stopping import StopRule
from rlcomp.seed import named_seed

# Logits that a draw processes at a time: 1 million, which fit in a cache of 4 MB.
_DRAWN = 2**20
# Random numbers of a fork, or of a row with a seed, that are drawn at a time.
_BLOCK = 64


@dataclass(frozen=True)
class Drawn:
    """One token per row.

    Attributes:
        tokens: shape ``[N]``, int64.
        log_probs: shape ``[N]``, nats.
        kept: shape ``[N, ceil(V / 8)]``, uint8: the sampling mask of each token; None if not
            recorded.
    """

    tokens: Tensor
    log_probs: Tensor
    kept: Tensor | None = None


# From logits ``[N, V]`` and a uniform number for each row, ``[N, 1]``.
Draw = Callable[[Tensor, Tensor], Drawn]


@dataclass(frozen=True)
class TokenDraw:
    """A draw of :func:`draw_tokens`.

    Attributes:
        decoding: the distribution to draw from; says whether sampling masks are recorded.
        suppressed: tokens that are never drawn, shape ``[V]``, bool.
    """

    decoding: Decoding
    suppressed: Tensor | None = None

    def __call__(self, logits: Tensor, uniform: Tensor) -> Drawn:
        """Draw one token per row."""
        return draw_tokens(logits, uniform, self.decoding, self.suppressed)


@dataclass(frozen=True)
class Sampled:
    """The sampled responses of a batch; ``S`` decode steps.

    Attributes:
        tokens: shape ``[B, S]``, int64; arbitrary after a row's end.
        log_probs: shape ``[B, S]``, nats; arbitrary after a row's end.
        lengths: shape ``[B]``, int64: sampled tokens, including the one that ended the row.
        truncated: shape ``[B]``, bool: the row was cut at its limit.
        kept: shape ``[B, S, ceil(V / 8)]``, uint8: the sampling mask of each token; arbitrary after
            a row's end. None if not recorded.
        routes: shape ``[B, P + S, L, K]``, uint8: the experts that read each token of a row, prompt
            included (:mod:`rlcomp.engine.routing`). None if not recorded.
    """

    tokens: Tensor
    log_probs: Tensor
    lengths: Tensor
    truncated: Tensor
    kept: Tensor | None = None
    routes: Tensor | None = None


def uniform(rows: int, generator: torch.Generator) -> Tensor:
    """Draw a number in [0, 1) for each row, shape ``[rows, 1]``, float64.

    Args:
        rows: the rows of this process.
        generator: on the CPU; the generator of a part of a batch gives the numbers that its rows
            have in the whole batch.
    """
    if isinstance(generator, PartGenerator):
        return generator.uniform(rows)
    return torch.rand(rows, 1, dtype=torch.float64, generator=generator)


class Uniforms:
    """Uniform random numbers for the rows of a batch, step by step.

    A row's numbers depend only on the generator, the batch size and the row's place in the batch.
    They do not depend on the rows that have finished, are decoded together, or belong to this
    process (:class:`rlcomp.engine.rng_slice.PartGenerator`).

    Args:
        rows: ``B``.
        generator: on the CPU.
    """

    def __init__(self, rows: int, generator: torch.Generator) -> None:
        self.rows = rows
        self.generator = generator
        self._drawn: list[Tensor] = []
        # Before steps were drawn in advance: the number of steps, and the state of the generator.
        self._before: tuple[int, Tensor] | None = None

    def at(self, step: int) -> Tensor:
        """Return the numbers in [0, 1) of a step, shape ``[B, 1]``, float64, on the CPU."""
        self._draw(step + 1)
        return self._drawn[step]

    @property
    def known(self) -> int:
        """Return the number of steps that have been drawn."""
        return len(self._drawn)

    def some(self, start: int, count: int) -> Tensor:
        """Return the numbers of some steps, shape ``[count, B, 1]``; some may not be needed."""
        if len(self._drawn) < start + count:
            # Some row has reached this step, so that nothing rewinds to an earlier one.
            self._before = len(self._drawn), self.generator.get_state()
            self._draw(start + count)
        return torch.stack(self._drawn[start : start + count])

    def rewind(self, steps: int) -> None:
        """Set the generator to its state after ``steps`` steps, also when more were drawn."""
        if steps < len(self._drawn):
            assert self._before is not None
            known, state = self._before
            self.generator.set_state(state)
            del self._drawn[known:]
            self._draw(steps)

    def _draw(self, steps: int) -> None:
        """Draw numbers until there are ``steps`` steps of them."""
        while len(self._drawn) < steps:
            self._drawn.append(uniform(self.rows, self.generator))


class SeededUniforms(Uniforms):
    """Uniform random numbers of rows with seeds of their own, independent of the rest of the batch.

    Args:
        seeds: of each row; its numbers depend on nothing else.
        generator: of the forks.
    """

    def __init__(self, seeds: Sequence[int], generator: torch.Generator) -> None:
        super().__init__(len(seeds), generator)
        self._own = [torch.Generator().manual_seed(seed) for seed in seeds]

    def _draw(self, steps: int) -> None:
        while len(self._drawn) < steps:
            block = [torch.rand(_BLOCK, dtype=torch.float64, generator=own) for own in self._own]
            self._drawn += torch.stack(block, 1)[..., None].unbind()

    def rewind(self, steps: int) -> None:
        """Do nothing: numbers drawn in advance come from generators that only this object uses."""


class ForkUniforms:
    """Uniform random numbers of rows that can be forked; a fork leaves the numbers of others alone.

    A fork's numbers depend on the state of the generator before the first fork, and on the number
    of earlier forks.

    Args:
        rows: rows at the beginning; their numbers are those of :class:`Uniforms`.
        generator: on the CPU.
        seeds: of those rows; their numbers then are those of :class:`SeededUniforms`.
    """

    def __init__(
        self, rows: int, generator: torch.Generator, seeds: Sequence[int] | None = None
    ) -> None:
        self.whole = (
            Uniforms(rows, generator) if seeds is None else SeededUniforms(seeds, generator)
        )
        self.forks = 0
        self._seed = 0
        self._blocks: dict[int, Tensor] = {}

    def fork(self) -> None:
        """Add a row."""
        if not self.forks:  # from a copy: the generator's own numbers belong to the rows
            generator = self.whole.generator.clone_state()
            self._seed = int(torch.randint(2**62, (), generator=generator))
        self.forks += 1

    def ahead(self, steps: int) -> int:
        """Draw the numbers of ``steps`` steps in advance; some may not be needed.

        Returns:
            The number of steps drawn before: :meth:`rewind` takes this number or a greater one.
        """
        known = self.whole.known
        if steps > known:
            self.whole.some(known, steps - known)
        return known

    def rewind(self, steps: int) -> None:
        """Set the generator to its state after ``steps`` steps, also when more were drawn."""
        self.whole.rewind(steps)

    def at(self, step: int) -> Tensor:
        """Return numbers in [0, 1) of a step, shape ``[rows + forks, 1]``, float64, on the CPU."""
        if not self.forks:
            return self.whole.at(step)
        block, place = divmod(step, _BLOCK)
        return torch.cat([self.whole.at(step), self._block(block)[:, place : place + 1]])

    def _block(self, block: int) -> Tensor:
        """Return the numbers of every fork for a block of steps, shape ``[forks, _BLOCK]``."""
        known = self._blocks.get(block, torch.zeros(0, _BLOCK, dtype=torch.float64))
        if len(known) < self.forks:
            new = [self._numbers(fork, block) for fork in range(len(known), self.forks)]
            known = self._blocks[block] = torch.cat([known, torch.stack(new)])
        return known

    def _numbers(self, fork: int, block: int) -> Tensor:
        own = torch.Generator().manual_seed(named_seed(self._seed, f"fork {fork} {block}"))
        return torch.rand(_BLOCK, dtype=torch.float64, generator=own)


class Transcript:
    """Buffer of the draws of a batch, in segments of steps.

    Args:
        rows: ``B``.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._pieces: list[tuple[list[int], int, Drawn]] = []

    def write(self, rows: Sequence[int], start: int, steps: Sequence[Drawn]) -> None:
        """Store the steps of some rows.

        Args:
            rows: the first of the rows that were drawn for; the others are left out.
            start: number of the first step.
            steps: the draws, at least one step.
        """
        masks = [step.kept[: len(rows)] for step in steps if step.kept is not None]
        drawn = Drawn(
            torch.stack([step.tokens[: len(rows)] for step in steps], 1),
            torch.stack([step.log_probs[: len(rows)] for step in steps], 1),
            torch.stack(masks, 1) if masks else None,
        )
        self._pieces.append((list(rows), start, drawn))

    def sampled(self, stop: StopRule) -> Sampled:
        """Return all rows; 0 where nothing was written.

        Args:
            stop: the rule that ended them.
        """
        length = max(stop.lengths)  # later steps were taken in vain
        tokens = self._whole([drawn.tokens for _, _, drawn in self._pieces], length)
        masks = [drawn.kept for _, _, drawn in self._pieces if drawn.kept is not None]
        lengths, truncated = stop.ends(tokens.device)
        return Sampled(
            tokens=tokens,
            log_probs=self._whole([drawn.log_probs for _, _, drawn in self._pieces], length),
            lengths=lengths,
            truncated=truncated,
            kept=self._whole(masks, length) if masks else None,
        )

    def _whole(self, parts: Sequence[Tensor], length: int) -> Tensor:
        whole = parts[0].new_zeros(self.rows, length, *parts[0].shape[2:])
        for (rows, start, _), part in zip(self._pieces, parts, strict=True):
            stop = min(start + part.shape[1], length)
            whole[rows, start:stop] = part[:, : max(0, stop - start)]
        return whole


def draw_tokens(
    logits: Tensor, uniform: Tensor, decoding: Decoding, suppressed: Tensor | None
) -> Drawn:
    """Draw one token per row, in chunks of rows.

    Args:
        logits: shape ``[N, V]``.
        uniform: numbers in [0, 1), shape ``[N, 1]``, float64.
        decoding: the distribution to draw from; says whether sampling masks are recorded.
        suppressed: tokens that are never drawn, shape ``[V]``, bool.
    """
    rows = max(1, _DRAWN // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    if len(logits) <= rows:
        return _draw_some(logits, uniform, decoding, suppressed)
    starts = range(0, len(logits), rows)
    parts = [
        _draw_some(logits[at : at + rows], uniform[at : at + rows], decoding, suppressed)
        for at in starts
    ]
    masks = [part.kept for part in parts if part.kept is not None]
    return Drawn(
        torch.cat([part.tokens for part in parts]),
        torch.cat([part.log_probs for part in parts]),
        torch.cat(masks) if masks else None,
    )


def _draw_some(
    logits: Tensor, uniform: Tensor, decoding: Decoding, suppressed: Tensor | None
) -> Drawn:
    scores = filtered(logits, decoding, suppressed)
    tokens, log_probs = sample(scores, uniform)
    return Drawn(tokens, log_probs, pack(scores > -torch.inf) if decoding.replays else None)
