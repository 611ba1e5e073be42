"""The critic's values before the update."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.metrics import record
from rlcomp.model.actor_critic import ActorCritic
from rlcomp.model.critic import Critic
from rlcomp.model.language_critic import LanguageCritic


class ValueEstimate(Component):
    """Stage that writes the critic's values before the update.

    The advantages use them, and the value clip is around them. Reads ``tokens``,
    ``attention_mask``, ``response_mask`` ``[B, T]``.

    Writes ``value`` and ``old_value`` ``[B, T]``, in reward units, without gradient; 0 outside
    ``response_mask``. A learner overwrites ``value`` with the value of its own forward pass.

    Records ``value/mean``.

    Args:
        critic: a separate model, or a policy with a value head.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, algorithm 1.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("value", "old_value")

    def __init__(self, *, critic: ActorCritic | Critic | LanguageCritic) -> None:
        super().__init__()
        self.critic = critic

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the values."""
        with torch.no_grad():
            value = self.critic.values(batch)
        record("value/mean", value, where=batch["response_mask"])
        batch["value"], batch["old_value"] = value, value.clone()
        return batch
