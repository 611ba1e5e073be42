"""Reference policy: the policy's base model with its adapters disabled."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.metrics import record
from rlcomp.model.adapters import adapters_off, has_adapters
from rlcomp.model.language_model import LanguageModel


class AdapterOff(Component):
    """Reference policy: the base model, without extra memory, by disabling the adapters.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient.

    Records ``kl/reference`` if the rows are rollouts: the mean of
    ``rollout_log_probs - ref_log_probs``, nats per token (the estimator k1).

    Args:
        policy: a model with adapters.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("rollout_log_probs",)
    writes = ("ref_log_probs",)

    policy: LanguageModel

    def __init__(self, *, policy: LanguageModel) -> None:
        super().__init__()
        if not has_adapters(policy.model):
            raise ConfigError(
                "reference: the policy has no adapters to switch off: use adapter=lora or "
                "reference=frozen"
            )
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens with the base model."""
        with torch.no_grad(), adapters_off(self.policy.model):
            ref_log_probs = self.policy.log_probs(batch.exclude("routed_experts"))
        batch["ref_log_probs"] = ref_log_probs
        if "rollout_log_probs" in batch.keys():
            distance = batch["rollout_log_probs"] - ref_log_probs
            record("kl/reference", distance, where=batch["response_mask"])
        return batch
