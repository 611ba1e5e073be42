"""Old log-probs and the sum of squared probabilities, recomputed before the update."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.interfaces.policy import FullDistributionPolicy
from rlcomp.metrics import record


class RecomputedMoments(Component):
    """Stage that recomputes ``old_log_probs`` and ``squared_probs`` (optimal token baseline).

    ``squared_probs_t = sum_v pi_old(v|s_t)^2``. It takes two forward passes.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there. Writes ``old_log_probs`` and ``squared_probs`` ``[B, T]``, both
    under the sampling distribution. Records the sampler-trainer mismatch if the rows are
    rollouts.

    Args:
        policy: the model that is trained.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("rollout_log_probs",)
    keys = {
        "squared_probs": (
            "B T",
            "float",
            "sum over the vocabulary of pi_old squared",
            {"example": "probability"},
        )
    }
    writes = ("old_log_probs", "squared_probs")

    def __init__(self, *, policy: FullDistributionPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the recomputed log-probs and the sum of squared probabilities."""
        with torch.no_grad():
            batch["old_log_probs"] = self.policy.log_probs(batch)
        batch["squared_probs"] = self.policy.squared_probs(batch)
        if "rollout_log_probs" in batch.keys():
            gap = (batch["old_log_probs"] - batch["rollout_log_probs"]).abs()
            record("old_log_probs/sampler_gap", gap, where=batch["response_mask"])
        return batch
