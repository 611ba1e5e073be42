"""Log-probs of the policy before the update, recorded by the sampler or recomputed."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.interfaces.policy import FullDistributionPolicy, RoutesTokens, ScoresRows
from rlcomp.metrics import record


class RolloutLogProbs(Component):
    """Stage that copies ``rollout_log_probs`` to ``old_log_probs``, without a forward pass.

    The copy is exact if sampler and trainer share engine and weights. It is NaN where the sampler
    recorded no log-prob.

    Reads ``rollout_log_probs`` ``[B, T]``. Writes ``old_log_probs`` ``[B, T]``.
    """

    reads = ("rollout_log_probs",)
    writes = ("old_log_probs",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the log-probs that the sampler recorded."""
        batch["old_log_probs"] = batch["rollout_log_probs"].detach()
        return batch


class RecomputedLogProbs(Component):
    """Stage that recomputes the old log-probs (decoupled PPO's proximal policy).

    It is needed if the sampler is another engine or has older weights. With
    ``decoding.keep_routing=proximal`` the update routes tokens to the experts of this pass.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if present. Writes ``old_log_probs`` ``[B, T]``, and with
    ``decoding.keep_routing=proximal`` ``routed_experts`` ``[B, T, L, E]``. If the rows are
    rollouts, records ``old_log_probs/sampler_gap``, the mean of
    ``|log pi_old(a_t) - log pi_rollout(a_t)|`` in nats.

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
        _record_sampler_gap(batch)
        return batch


def _record_sampler_gap(batch: TensorDict) -> None:
    """Record the distance of recorded and recomputed log-probs, if the rows are rollouts."""
    if "rollout_log_probs" in batch.keys():
        gap = (batch["old_log_probs"] - batch["rollout_log_probs"]).abs()
        # NaN marks a token whose log-prob the sampler did not record.
        recorded = batch["response_mask"] & ~batch["rollout_log_probs"].isnan()
        record("old_log_probs/sampler_gap", gap, where=recorded)


class RecomputedMoments(Component):
    """Stage that recomputes ``old_log_probs`` and ``squared_probs`` (optimal token baseline).

    ``squared_probs_t = sum_v pi_old(v|s_t)^2``. It takes two forward passes.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if present. Writes ``old_log_probs`` and ``squared_probs`` ``[B, T]``, both
    under the sampling distribution. If the rows are rollouts, records
    ``old_log_probs/sampler_gap``, the mean of ``|log pi_old(a_t) - log pi_rollout(a_t)|`` in nats.

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
        _record_sampler_gap(batch)
        return batch
