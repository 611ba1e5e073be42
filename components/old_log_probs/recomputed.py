"""Old log-probs, recomputed by a forward pass of the trainer before the update."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.interfaces.policy import RoutesTokens, ScoresRows
from rlcomp.metrics import record


class Recomputed(Component):
    """Old log-probs recomputed by the trainer (decoupled PPO's proximal policy).

    Needed when the sampler is another engine or an older policy. With
    ``decoding.keep_routing=proximal`` the experts of this pass read the tokens in the update, too.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` where it is there. Writes ``old_log_probs`` ``[B, T]``, and ``routed_experts``
    ``[B, T, L, E]`` where they are kept; records the sampler-trainer mismatch where the rows are
    rollouts.

    Args:
        policy: the model that is trained.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("rollout_log_probs",)
    writes = ("old_log_probs",)
    may_write = ("routed_experts",)

    def __init__(self, *, policy: ScoresRows) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the recomputed log-probs."""
        policy = self.policy
        if isinstance(policy, RoutesTokens) and policy.decoding.keep_routing == "proximal":
            batch["old_log_probs"], batch["routed_experts"] = policy.score_and_route(batch)
        else:
            with torch.no_grad():
                batch["old_log_probs"] = policy.log_probs(batch)
        if "rollout_log_probs" in batch.keys():
            gap = (batch["old_log_probs"] - batch["rollout_log_probs"]).abs()
            record("old_log_probs/sampler_gap", gap, where=batch["response_mask"])
        return batch
