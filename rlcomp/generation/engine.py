"""The decode loop: token ids in, sampled ids and their log-probs out. No TensorDict in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel

from rlcomp.generation.kept import pack
from rlcomp.generation.probe import Traits
from rlcomp.generation.sampling import Sampling, sample, sampling_log_probs

# Logits a draw looks at in one go: 4 million, 32 MB in float64.
_DRAWN = 2**22


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
    draw: Callable[[Tensor], tuple[Tensor, Tensor]],
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
        draw: from logits ``[B, V]`` to tokens and their log-probs, ``[B]`` each.

    Returns:
        ``B = P * G`` rows.
    """
    state = _prefill(model, traits, prompts, group_size)
    finished = torch.zeros(len(prompts) * group_size, dtype=torch.bool, device=model.device)
    lengths = torch.zeros_like(finished, dtype=torch.int64)
    tokens, log_probs = [], []
    for _ in range(max_new_tokens):
        token, log_prob = draw(state.logits)
        tokens.append(token)
        log_probs.append(log_prob)
        lengths += ~finished
        finished = finished | (token == eos)
        if len(tokens) == max_new_tokens or bool(finished.all()):
            break
        state.step(token)
    return Sampled(torch.stack(tokens, 1), torch.stack(log_probs, 1), lengths, ~finished)


def draw_tokens(
    logits: Tensor,
    sampling: Sampling,
    barred: Tensor | None,
    generator: torch.Generator,
    record: list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Draw one token per row, some rows at a time: the draw works in float64.

    Args:
        logits: shape ``[B, V]``.
        sampling: the distribution to draw from.
        barred: tokens that are never drawn, shape ``[V]``, bool.
        generator: on the CPU.
        record: where the sets drawn from are appended, ``[B, ceil(V / 8)]``, uint8.

    Returns:
        Tokens, int64, and their log-probs, nats, shape ``[B]`` each.
    """
    tokens, log_probs, kept = [], [], []
    for some in torch.split(logits, max(1, _DRAWN // logits.shape[1])):
        scores = sampling_log_probs(some, sampling, barred)
        tokens.append(sample(scores, generator))
        log_probs.append(scores.gather(-1, tokens[-1][:, None]).squeeze(-1))
        if record is not None:
            kept.append(pack(scores > -torch.inf))
    if record is not None:
        record.append(torch.cat(kept))
    return torch.cat(tokens), torch.cat(log_probs)


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
