"""Log-probs of the policy as it stands before the update, by a forward pass."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.metrics import record
from rlcomp.model.language_model import LanguageModel


class Recomputed(Component):
    """``old_log_probs`` by the trainer's own forward; needed when the sampler is another engine.

    Reads ``tokens``, ``attention_mask``, ``response_mask``, ``rollout_log_probs`` ``[B, T]``.
    Writes ``old_log_probs`` ``[B, T]``; records how far the sampler was off.

    Args:
        policy: the model that is trained.
    """

    reads = (
        "tokens",
        "attention_mask",
        "response_mask",
        "rollout_log_probs",
    )
    writes = ("old_log_probs",)

    def __init__(self, *, policy: LanguageModel) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the recomputed log-probs."""
        with torch.no_grad():
            batch["old_log_probs"] = self.policy.log_probs(batch)
        gap = (batch["old_log_probs"] - batch["rollout_log_probs"]).abs()
        record("proximal/sampler_gap", gap, where=batch["response_mask"])
        return batch
