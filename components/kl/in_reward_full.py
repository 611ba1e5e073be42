"""Full-vocabulary KL penalty in the outcome reward, before the baseline."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.kl import kl_full
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.interfaces.kl_weight import times_kl_weight
from rlcomp.interfaces.policy import FullDistributionPolicy
from rlcomp.metrics import record


class KLInRewardFull(Component):
    """Full-vocabulary KL penalty in the outcome reward.

    ``R_i <- R_i - beta * sum_t KL_it`` with
    ``KL_it = sum_v pi(v|s_it) (log pi(v|s_it) - log pi_ref(v|s_it))``.

    It lacks the noise of a single-sample estimate; the sum still depends on the states that the
    response visits. The policy's distribution is computed here. Memory: three times ``B * T * V``
    numbers, the reference's included.

    Reads ``reward`` ``[B]``, ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``,
    ``ref_log_distribution`` ``[B, T, V]``. Writes ``reward``.

    Args:
        policy: the policy before the update.
        controller: the controller of beta; updated from the measured KL.

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, eq. 2, with the expectation over the token taken.
    """

    keys = {
        "greedy": (
            "B",
            "bool",
            "decoded greedily, as a baseline; not trained on",
            {"example": "first_of_group"},
        )
    }
    reads = ("reward", "tokens", "attention_mask", "response_mask", "ref_log_distribution")
    writes = ("reward",)
    optional = ("greedy", "kl_weight")
    must_reach = ("reward",)
    exclusive = "kl"
    equation = "R <- R - beta sum_t KL(pi_old(. | s_t) || pi_ref(. | s_t)), beta = {controller}"

    policy: FullDistributionPolicy

    def __init__(self, *, policy: FullDistributionPolicy, controller: KLController) -> None:
        super().__init__()
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        self.controller = controller

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the shaped reward."""
        mask = batch["response_mask"]
        with torch.no_grad():
            own = self.policy.log_distribution(batch)
        kl = kl_full(own, batch["ref_log_distribution"], mask)
        record("kl/in_reward", kl, where=mask)
        paying = ~batch["greedy"] if "greedy" in batch.keys() else None
        penalty = self.controller.penalty(kl, mask, paying)
        batch["reward"] = batch["reward"] - times_kl_weight(penalty, batch)
        return batch
