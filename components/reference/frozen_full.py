"""Frozen reference policy with full next-token distributions."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict

from components.reference.frozen import Frozen
from rlcomp.interfaces.policy import FullDistributionPolicy
from rlcomp.keys import Key


class FrozenFull(Frozen):
    """Frozen reference for a full-vocabulary KL; costs a second forward pass.

    Memory: ``ref_log_distribution`` holds ``B * T * V`` numbers during the whole step.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution`` ``[B, T, V]``, nats, without
    gradient.

    Args:
        policy: the model to stay close to.
    """

    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs", "ref_log_distribution")

    policy: FullDistributionPolicy

    def __init__(self, *, policy: FullDistributionPolicy) -> None:
        super().__init__(policy=policy)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the log-probs of the response tokens and of the whole vocabulary."""
        batch = super().forward(batch)
        with torch.no_grad():
            weights = self.copied.weights()
            batch["ref_log_distribution"] = self.policy.log_distribution(batch, weights)
        return batch
