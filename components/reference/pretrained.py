"""Reference policy from a folder or a run, such as the base that training started from."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from transformers import PreTrainedModel

from rlcomp.component import Component
from rlcomp.interfaces.policy import Policy
from rlcomp.metrics import record
from rlcomp.model.language_model import LanguageModel


class Pretrained(Component):
    """Reference policy: another model with the policy's tokenizer, frozen.

    It costs a second model, in memory and in checkpoints; ``reference=frozen`` costs the weights
    that are trained.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` where it is there.

    Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient, under the policy's decoding.

    Records ``kl/reference``, where the rows are rollouts: mean of
    ``rollout_log_probs - ref_log_probs``, nats a token (the estimator k1).

    Args:
        policy: its tokenizer and its decoding are used.
        model: scores the responses; the policy's vocabulary.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("rollout_log_probs",)
    writes = ("ref_log_probs",)

    policy: Policy

    def __init__(self, *, policy: Policy, model: PreTrainedModel) -> None:
        super().__init__()
        # Past nn.Module: the policy's tensors belong to the policy, in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        self.model = model.requires_grad_(False)
        self.scorer = LanguageModel(
            model=model, tokenizer=policy.tokenizer, decoding=policy.decoding
        )

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens with the other model."""
        with torch.no_grad():
            ref_log_probs = self.scorer.log_probs(batch.exclude("routed_experts"))
        batch["ref_log_probs"] = ref_log_probs
        if "rollout_log_probs" in batch.keys():
            distance = batch["rollout_log_probs"] - ref_log_probs
            record("kl/reference", distance, where=batch["response_mask"])
        return batch
