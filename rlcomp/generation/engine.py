"""The decode loop: token ids in, sampled ids and their log-probs out. No TensorDict in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel

from rlcomp.generation.kept import pack
from rlcomp.generation.probe import Traits
from rlcomp.generation.sampling import Sampling, filtered, sample

# Logits a draw looks at in one go: 1 million, which stay in a cache of 4 MB.
_DRAWN = 2**20


@dataclass(frozen=True)
class Drawn:
    """One token per row.

    Attributes:
        tokens: shape ``[N]``, int64.
        log_probs: shape ``[N]``, nats.
        kept: shape ``[N, ceil(V / 8)]``, uint8: the tokens each was drawn from; None if not
            recorded.
    """

    tokens: Tensor
    log_probs: Tensor
    kept: Tensor | None = None


# From logits ``[N, V]`` and a uniform number for each row, ``[N, 1]``.
Draw = Callable[[Tensor, Tensor], Drawn]


@dataclass(frozen=True)
class Sampled:
    """What the model answered, row by row; ``S`` steps were taken.

    Attributes:
        tokens: shape ``[B, S]``, int64; arbitrary after a row's end.
        log_probs: shape ``[B, S]``, nats; arbitrary after a row's end.
        lengths: shape ``[B]``, int64: tokens sampled, EOS included.
        truncated: shape ``[B]``, bool: no EOS within the limit.
        kept: shape ``[B, S, ceil(V / 8)]``, uint8: the tokens each was drawn from; arbitrary after
            a row's end. None if not recorded.
    """

    tokens: Tensor
    log_probs: Tensor
    lengths: Tensor
    truncated: Tensor
    kept: Tensor | None = None


@torch.no_grad()
def decode(
    model: PreTrainedModel,
    traits: Traits,
    prompts: Sequence[Sequence[int]],
    *,
    group_size: int,
    max_new_tokens: int,
    eos: int,
    draw: Draw,
    generator: torch.Generator,
) -> Sampled:
    """Sample ``group_size`` answers to every prompt.

    Each prompt is read once and its cache repeated for the answers of its group, where the cache
    can be repeated.

    Args:
        model: a causal model in eval mode.
        traits: how the model is spoken to.
        prompts: ``P`` non-empty lists of token ids.
        group_size: ``G``; row ``p * G + g`` answers prompt ``p``.
        max_new_tokens: the most tokens a row may get, EOS included; at least 1.
        eos: the id that ends a row.
        draw: from logits and uniform numbers to tokens.
        generator: on the CPU, so that the draws do not depend on the device; gives ``B`` uniform
            numbers a step, finished rows included, in the order of the rows.

    Returns:
        ``B = P * G`` rows.
    """
    state = _prefill(model, traits, prompts, group_size)
    uniforms = Uniforms(len(prompts) * group_size, generator)
    finished = torch.zeros(len(prompts) * group_size, dtype=torch.bool, device=model.device)
    steps: list[Drawn] = []
    for step in range(max_new_tokens):
        steps.append(draw(state.logits, uniforms.at(step).to(model.device)))
        finished = finished | (steps[-1].tokens == eos)
        if step + 1 == max_new_tokens or bool(finished.all()):
            break
        state.step(steps[-1].tokens)
    transcript = Transcript(uniforms.rows)
    transcript.write(range(uniforms.rows), 0, steps)
    return transcript.sampled(eos)


class Uniforms:
    """Uniform numbers for the rows of a batch, step by step.

    A row's numbers depend on the generator, the size of the batch, and its place in it, not on
    which rows have ended or are read together.

    Args:
        rows: ``B``.
        generator: on the CPU.
    """

    def __init__(self, rows: int, generator: torch.Generator) -> None:
        self.rows = rows
        self.generator = generator
        self._drawn: list[Tensor] = []

    def at(self, step: int) -> Tensor:
        """Numbers in [0, 1) of a step, shape ``[B, 1]``, float64, on the CPU."""
        while len(self._drawn) <= step:
            self._drawn.append(
                torch.rand(self.rows, 1, dtype=torch.float64, generator=self.generator)
            )
        return self._drawn[step]


class Transcript:
    """What was drawn for the rows of a batch, in pieces.

    Args:
        rows: ``B``.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._pieces: list[tuple[list[int], int, Drawn]] = []

    def write(self, rows: Sequence[int], start: int, steps: Sequence[Drawn]) -> None:
        """Note steps that some rows took together.

        Args:
            rows: the first of those that were drawn for; the others are left out.
            start: number of the first step.
            steps: what was drawn, at least one step.
        """
        kept = [step.kept[: len(rows)] for step in steps if step.kept is not None]
        drawn = Drawn(
            torch.stack([step.tokens[: len(rows)] for step in steps], 1),
            torch.stack([step.log_probs[: len(rows)] for step in steps], 1),
            torch.stack(kept, 1) if kept else None,
        )
        self._pieces.append((list(rows), start, drawn))

    def sampled(self, eos: int) -> Sampled:
        """All rows; 0 where nothing was written.

        Args:
            eos: the id that ends a row.
        """
        length = max(start + drawn.tokens.shape[1] for _, start, drawn in self._pieces)
        tokens = self._whole([drawn.tokens for _, _, drawn in self._pieces], length)
        ends = tokens == eos
        ended = ends.any(1)
        kept = [drawn.kept for _, _, drawn in self._pieces if drawn.kept is not None]
        return Sampled(
            tokens=tokens,
            log_probs=self._whole([drawn.log_probs for _, _, drawn in self._pieces], length),
            lengths=torch.where(ended, ends.int().argmax(1) + 1, length),
            truncated=~ended,
            kept=self._whole(kept, length) if kept else None,
        )

    def _whole(self, parts: Sequence[Tensor], length: int) -> Tensor:
        whole = parts[0].new_zeros(self.rows, length, *parts[0].shape[2:])
        for (rows, start, _), part in zip(self._pieces, parts, strict=True):
            whole[rows, start : start + part.shape[1]] = part
        return whole


def draw_tokens(
    logits: Tensor, uniform: Tensor, sampling: Sampling, barred: Tensor | None
) -> Drawn:
    """Draw one token per row, some rows at a time.

    Args:
        logits: shape ``[N, V]``.
        uniform: numbers in [0, 1), shape ``[N, 1]``, float64.
        sampling: the distribution to draw from; whether the sets drawn from are recorded.
        barred: tokens that are never drawn, shape ``[V]``, bool.
    """
    rows = max(1, _DRAWN // logits.shape[1])
    if len(logits) <= rows:
        return _draw_some(logits, uniform, sampling, barred)
    starts = range(0, len(logits), rows)
    parts = [
        _draw_some(logits[at : at + rows], uniform[at : at + rows], sampling, barred)
        for at in starts
    ]
    kept = [part.kept for part in parts if part.kept is not None]
    return Drawn(
        torch.cat([part.tokens for part in parts]),
        torch.cat([part.log_probs for part in parts]),
        torch.cat(kept) if kept else None,
    )


def _draw_some(logits: Tensor, uniform: Tensor, sampling: Sampling, barred: Tensor | None) -> Drawn:
    scores = filtered(logits, sampling, barred)
    tokens, log_probs = sample(scores, uniform)
    return Drawn(tokens, log_probs, pack(scores > -torch.inf) if sampling.replays else None)


@dataclass
class _State:
    """The model's memory of all rows, and its logits for their next token.

    ``mask`` is None when no prompt is padded: attention without a mask is the fast path.
    """

    model: PreTrainedModel
    traits: Traits
    positions: Tensor
    mask: Tensor | None
    logits: Tensor
    cache: Cache | None = None

    def read(self, ids: Tensor) -> None:
        """Read tokens at the positions, and keep the logits of the last one."""
        arguments: dict[str, object] = {"input_ids": ids, "attention_mask": self.mask}
        if self.traits.takes_positions:
            arguments["position_ids"] = self.positions
        if self.traits.keeps_columns:
            arguments["logits_to_keep"] = 1
        if self.cache is not None:
            arguments[self.traits.cache] = self.cache
        output = self.model(**arguments, use_cache=True)
        self.cache = output[self.traits.cache]
        self.logits = output.logits[:, -1]

    def step(self, token: Tensor) -> None:
        """Read one more token per row."""
        if self.traits.recurrent:
            # Such a memory has no columns: only what is being read can be padding.
            self.mask = None
        elif self.mask is not None:
            self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], 1)
        self.positions = self.positions[:, -1:] + 1
        self.read(token[:, None])

    def repeat(self, times: int) -> None:
        """Every row, ``times`` times in a row."""
        if self.cache is not None:
            self.cache.batch_repeat_interleave(times)
        self.logits = self.logits.repeat_interleave(times, 0)
        self.positions = self.positions.repeat_interleave(times, 0)
        if self.mask is not None:
            self.mask = self.mask.repeat_interleave(times, 0)


def _prefill(
    model: PreTrainedModel, traits: Traits, prompts: Sequence[Sequence[int]], group_size: int
) -> _State:
    """Read the prompts, padded on the left so that all of them end in the same column."""
    if not traits.repeats_cache:
        prompts = [prompt for prompt in prompts for _ in range(group_size)]
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    positions = torch.arange(width) - (width - lengths)[:, None]
    ragged = bool((lengths < width).any())
    state = _State(
        model=model,
        traits=traits,
        positions=positions.clamp(min=0).to(model.device),
        mask=(positions >= 0).long().to(model.device) if ragged else None,
        logits=torch.empty(0),
    )
    state.read(ids.to(model.device))
    if traits.repeats_cache:
        state.repeat(group_size)
    return state
