"""Live reference: the policy itself, as it is now."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.interfaces.policy import FullDistributionPolicy
from rlcomp.keys import Key
from rlcomp.metrics import record


class LiveFull(Component):
    """Live reference: the current weights of the policy, with full next-token distributions.

    As a teacher of itself it drifts with its student, and collapses: for controls.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` where it is there.

    Writes ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution`` ``[B, T, V]``, nats, without
    gradient. Records ``kl/reference``, where the rows are rollouts: mean of ``rollout_log_probs -
    ref_log_probs``, nats a token.

    Args:
        policy: the model.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("rollout_log_probs",)
    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs", "ref_log_distribution")

    policy: FullDistributionPolicy

    def __init__(self, *, policy: FullDistributionPolicy) -> None:
        super().__init__()
        # Past nn.Module: the policy's tensors belong to the policy, in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens with the weights of this moment."""
        with torch.no_grad():
            batch["ref_log_probs"] = self.policy.log_probs(batch)
            batch["ref_log_distribution"] = self.policy.log_distribution(batch)
        if "rollout_log_probs" in batch.keys():
            distance = batch["rollout_log_probs"] - batch["ref_log_probs"]
            record("kl/reference", distance, where=batch["response_mask"])
        return batch
