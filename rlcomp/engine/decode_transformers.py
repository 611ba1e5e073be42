"""Decode loop of the forward pass of transformers, for any causal LM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel

from rlcomp.engine.architectures import ModelSignature
from rlcomp.engine.draw import Draw, SampledResponses, SampledTokens, Transcript
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.uniforms import Uniforms


@torch.no_grad()
def decode(
    model: PreTrainedModel,
    signature: ModelSignature,
    prompts: Sequence[Sequence[int]],
    *,
    group_size: int,
    stop: StopRule,
    draw: Draw,
    uniforms: Uniforms,
) -> SampledResponses:
    """Sample ``group_size`` responses per prompt and return them.

    Each prompt is prefilled once if its cache can be repeated for its group, else once per row.

    Args:
        model: a causal model in eval mode.
        signature: the model's call signature.
        prompts: ``P`` non-empty lists of token ids.
        group_size: ``G``; row ``p * G + g`` answers prompt ``p``.
        stop: the rule that ends rows.
        draw: maps logits and uniform numbers to tokens.
        uniforms: uniform numbers of the rows.

    Returns:
        The responses of ``B = P * G`` rows.
    """
    state = _prefill(model, signature, prompts, group_size)
    steps: list[SampledTokens] = []
    while True:
        steps.append(draw(state.logits, uniforms.at(len(steps)).to(model.device)))
        finished = stop.take(range(uniforms.rows), steps[-1].tokens)
        if all(finished):
            break
        state.step(steps[-1].tokens, finished)
    transcript = Transcript(uniforms.rows)
    transcript.write(range(uniforms.rows), 0, steps)
    return transcript.responses(stop)


@dataclass
class _State:
    """Decoding state: the model's cache of all rows, and the logits of their next token.

    Attributes:
        model: the model.
        signature: the model's call signature.
        positions: positions of the tokens to read next, or that were read last, ``[rows, n]``.
        mask: attention mask of all columns; None if no prompt is padded, because attention without
            a mask is faster.
        logits: logits of the next token of each row, ``[rows, V]``.
        cache: the model's cache; None before the first pass.
    """

    model: PreTrainedModel
    signature: ModelSignature
    positions: Tensor
    mask: Tensor | None
    logits: Tensor
    cache: Cache | None = None

    def read(self, ids: Tensor) -> None:
        """Run the model on tokens; store the logits of the last column."""
        arguments: dict[str, object] = {"input_ids": ids, "attention_mask": self.mask}
        if self.signature.takes_positions:
            arguments["position_ids"] = self.positions
        if self.signature.keeps_columns:
            arguments["logits_to_keep"] = 1
        if self.cache is not None:
            arguments[self.signature.cache] = self.cache
        output = self.model(**arguments, use_cache=True)
        self.cache = output[self.signature.cache]
        self.logits = output.logits[:, -1]

    def step(self, token: Tensor, finished: Sequence[bool]) -> None:
        """Run the model on one more token of each row; a finished row stays at its position."""
        if self.signature.recurrent:
            # A recurrent state has no columns to mask.
            self.mask = None
        elif self.mask is not None:
            self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], 1)
        unfinished = [not ended for ended in finished]
        self.positions = (
            self.positions[:, -1:] + torch.tensor(unfinished, device=token.device)[:, None]
        )
        self.read(token[:, None])

    def repeat(self, times: int) -> None:
        """Repeat every row ``times`` times; the copies of a row are adjacent."""
        if self.cache is not None:
            self.cache.batch_repeat_interleave(times)
        self.logits = self.logits.repeat_interleave(times, 0)
        self.positions = self.positions.repeat_interleave(times, 0)
        if self.mask is not None:
            self.mask = self.mask.repeat_interleave(times, 0)


def _prefill(
    model: PreTrainedModel,
    signature: ModelSignature,
    prompts: Sequence[Sequence[int]],
    group_size: int,
) -> _State:
    """Prefill the prompts, left-padded so that all of them end in the same column."""
    if not signature.repeats_cache:
        prompts = [prompt for prompt in prompts for _ in range(group_size)]
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    positions = torch.arange(width) - (width - lengths)[:, None]
    ragged = bool((lengths < width).any())
    state = _State(
        model=model,
        signature=signature,
        positions=positions.clamp(min=0).to(model.device),
        mask=(positions >= 0).long().to(model.device) if ragged else None,
        logits=torch.empty(0),
    )
    state.read(ids.to(model.device))
    if signature.repeats_cache:
        state.repeat(group_size)
    return state
