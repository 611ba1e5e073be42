"""Live reference: the policy with its current weights."""

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

    It serves as a control: a teacher of itself drifts with its student and collapses.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution`` ``[B, T, V]``, nats, without
    gradient. Records ``kl/reference`` if the rows are rollouts: the mean of ``rollout_log_probs -
    ref_log_probs``, nats per token.

    Args:
        policy: the model.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("rollout_log_probs",)
    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs", "ref_log_distribution")

    policy: FullDistributionPolicy

    def __init__(self, *, policy: FullDistributionPolicy) -> None:
        super().__init__()
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens with the current weights."""
        with torch.no_grad():
            batch["ref_log_probs"] = self.policy.log_probs(batch)
            batch["ref_log_distribution"] = self.policy.log_distribution(batch)
        if "rollout_log_probs" in batch.keys():
            distance = batch["rollout_log_probs"] - batch["ref_log_probs"]
            record("kl/reference", distance, where=batch["response_mask"])
        return batch
