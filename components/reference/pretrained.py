"""Reference policy from a folder or a run, such as the base model of the training."""

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

    It costs a second model in memory and in checkpoints; ``reference=frozen`` costs only the
    trained weights.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient, under the policy's decoding.

    Records ``kl/reference`` if the rows are rollouts: the mean of
    ``rollout_log_probs - ref_log_probs``, nats per token (the estimator k1).

    Args:
        policy: the policy, for its tokenizer and its decoding.
        model: the model that scores the responses; it has the policy's vocabulary.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("rollout_log_probs",)
    writes = ("ref_log_probs",)

    policy: Policy

    def __init__(self, *, policy: Policy, model: PreTrainedModel) -> None:
        super().__init__()
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
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
