"""The decode loop: token ids in, sampled ids and their log-probs out. No TensorDict in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel

from rlcomp.generation.sampling import Sampling, sample, sampling_log_probs


@dataclass(frozen=True)
class Sampled:
    """What the model answered, row by row; ``S`` steps were taken.

    Attributes:
        tokens: shape ``[B, S]``, int64; arbitrary after a row's end.
        log_probs: shape ``[B, S]``, nats; arbitrary after a row's end.
        lengths: shape ``[B]``, int64: tokens sampled, EOS included.
        truncated: shape ``[B]``, bool: no EOS within the limit.
    """

    tokens: Tensor
    log_probs: Tensor
    lengths: Tensor
    truncated: Tensor


@torch.no_grad()
def decode(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    group_size: int,
    max_new_tokens: int,
    eos: int,
    sampling: Sampling,
    generator: torch.Generator,
) -> Sampled:
    """Sample ``group_size`` answers to every prompt.

    Each prompt is read once; its cache is then repeated for the answers of its group.

    Args:
        model: a causal model in eval mode.
        prompts: ``P`` non-empty lists of token ids.
        group_size: ``G``; row ``p * G + g`` answers prompt ``p``.
        max_new_tokens: the most tokens a row may get, EOS included.
        eos: the id that ends a row.
        sampling: the distribution to draw from.
        generator: on the CPU.

    Returns:
        ``B = P * G`` rows.
    """
    state = _prefill(model, prompts, group_size)
    finished = torch.zeros(len(prompts) * group_size, dtype=torch.bool, device=model.device)
    lengths = torch.zeros_like(finished, dtype=torch.int64)
    tokens, log_probs = [], []
    for _ in range(max_new_tokens):
        scores = sampling_log_probs(state.logits, sampling)
        token = sample(scores, generator)
        tokens.append(token)
        log_probs.append(scores.gather(-1, token[:, None]).squeeze(-1))
        lengths += ~finished
        finished = finished | (token == eos)
        if len(tokens) == max_new_tokens or bool(finished.all()):
            break
        state.step(model, token)
    return Sampled(torch.stack(tokens, 1), torch.stack(log_probs, 1), lengths, ~finished)


@dataclass
class _State:
    """The model's memory of all rows, and its logits for their next token.

    ``mask`` is None when no prompt is padded: attention without a mask is the fast path.
    """

    logits: Tensor
    cache: Cache
    positions: Tensor
    mask: Tensor | None

    def step(self, model: PreTrainedModel, token: Tensor) -> None:
        """Read one more token per row."""
        if self.mask is not None:
            self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], 1)
        self.positions = self.positions + 1
        output = model(
            input_ids=token[:, None],
            attention_mask=self.mask,
            position_ids=self.positions,
            past_key_values=self.cache,
            use_cache=True,
        )
        self.logits = output.logits[:, -1]


def _prefill(model: PreTrainedModel, prompts: Sequence[Sequence[int]], group_size: int) -> _State:
    """Read the prompts, padded on the left so that all of them end in the same column."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    positions = torch.arange(width) - (width - lengths)[:, None]
    ragged = bool((lengths < width).any())
    mask = (positions >= 0).long().to(model.device) if ragged else None
    positions = positions.clamp(min=0).to(model.device)
    output = model(
        input_ids=ids.to(model.device), attention_mask=mask, position_ids=positions, use_cache=True
    )
    cache = output.past_key_values
    cache.batch_repeat_interleave(group_size)
    return _State(
        logits=output.logits[:, -1].repeat_interleave(group_size, 0),
        cache=cache,
        positions=positions[:, -1:].repeat_interleave(group_size, 0),
        mask=None if mask is None else mask.repeat_interleave(group_size, 0),
    )
