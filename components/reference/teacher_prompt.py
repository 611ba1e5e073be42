"""Privileged teacher: a reference with another prompt than the policy."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.batch import decode_columns, decode_texts
from rlcomp.columns import CONVERSATION
from rlcomp.component import Component
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import Demonstration, PromptFormat
from rlcomp.keys import Key
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.rows import check_room, demonstration_rows


class RepromptedReference(Component):
    """Privileged reference: scores ``log pi_ref(y_t | teacher_prompt, y_<t)``.

    The reference scores a row of ``teacher_prompt`` and the policy's response; the scores are then
    copied to the positions of the response tokens in the policy's row.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``teacher_prompt`` ``[B,
    W]``, and ``rollout_log_probs`` ``[B, T]`` and ``columns`` if present. Writes
    ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution`` ``[B, T, V]``, nats, without gradient.

    Args:
        policy: the policy, whose tokenizer encodes the prompts and whose context must hold them.
        reference: ``frozen_full``, ``refreshed_full``, ``live_full`` or ``teacher_full``.
        prompt: prompt format; None: plain text.

    Raises:
        DataError: (when called) a teacher's prompt and the response exceed the context length.

    Source:
        Snell et al. 2022 (context distillation), arXiv:2209.15189; Vapnik & Vashist 2009.
    """

    reads = ("tokens", "attention_mask", "response_mask", "teacher_prompt")
    optional = ("rollout_log_probs", "columns")
    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs", "ref_log_distribution")
    runs = ("reference",)
    contained = True

    policy: Policy

    def __init__(
        self, *, policy: Policy, reference: Component, prompt: PromptFormat | None = None
    ) -> None:
        super().__init__()
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        self.reference = reference
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the responses after the teacher's prompts."""
        mask = batch["response_mask"]
        rows = self._teacher_rows(batch)
        row_mask = rows["response_mask"]
        if "rollout_log_probs" in batch.keys():
            rows["rollout_log_probs"] = torch.zeros(row_mask.shape, device=mask.device)
            rows["rollout_log_probs"][row_mask] = batch["rollout_log_probs"][mask].float()
        rows = self.reference(rows)
        # Both masks select the same response tokens in the same order.
        for key in self.writes:
            scores = rows[key]
            batch[key] = torch.zeros(*mask.shape, *scores.shape[2:], device=mask.device)
            batch[key][mask] = scores[row_mask]
        return batch

    def _teacher_rows(self, batch: TensorDict) -> TensorDict:
        """Return rows of the teacher's prompts and the policy's responses."""
        mask = batch["response_mask"]
        texts = decode_texts(batch["teacher_prompt"])
        prompts = self.prompt.encode(texts, decode_columns(batch, [CONVERSATION]))
        masks = mask.tolist()
        responses = [_response_part(*row) for row in zip(_token_ids(batch), masks, strict=True)]
        lengths = [len(prompt) for prompt in prompts], [len(response.ids) for response in responses]
        check_room(*lengths, self.policy.context_length, lambda row: texts[row])
        rows = [
            Demonstration([*prompt, *response.ids], [False] * len(prompt) + response.trained)
            for prompt, response in zip(prompts, responses, strict=True)
        ]
        return demonstration_rows(self.policy.tokenizer, rows).to(mask.device)


def _token_ids(batch: TensorDict) -> list[list[int]]:
    """Return the tokens of each row, without padding."""
    lengths = batch["attention_mask"].sum(1).tolist()
    return [ids[:length] for ids, length in zip(batch["tokens"].tolist(), lengths, strict=True)]


def _response_part(ids: list[int], mask: list[bool]) -> Demonstration:
    """Return the tokens after the prompt, from the first response token on."""
    start = mask.index(True) if any(mask) else len(ids)
    return Demonstration(ids[start:], mask[start : len(ids)])
