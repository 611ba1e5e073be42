"""KL penalty in the outcome reward, before the baseline (RLOO)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.kl import Value, kl_estimate
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.interfaces.kl_weight import times_kl_weight
from rlcomp.metrics import record


class KLInReward(Component):
    """KL penalty in the outcome reward (RLOO).

    ``R_i <- R_i - beta * sum_t k(d_it)`` with ``d_it = log pi_old(a_it) - log pi_ref(a_it)`` and
    ``k`` the estimator.

    Applied before the baseline, so that group statistics include the penalty.

    Reads ``reward`` ``[B]``, ``response_mask``, ``old_log_probs``, ``ref_log_probs`` ``[B, T]``.
    Writes ``reward``.

    Args:
        controller: the controller of beta; updated from the measured KL.
        estimator: k1 makes the policy gradient that of KL(pi || ref).

    Source:
        Ahmadian et al. 2024, arXiv:2402.14740, eq. 3.
    """

    keys = {
        "greedy": (
            "B",
            "bool",
            "decoded greedily, as a baseline; not trained on",
            {"example": "first_of_group"},
        )
    }
    reads = (
        "reward",
        "response_mask",
        "old_log_probs",
        "ref_log_probs",
    )
    writes = ("reward",)
    optional = ("greedy", "kl_weight")
    must_reach = ("reward",)
    exclusive = "kl"
    equation = (
        "R <- R - beta sum_t {estimator:formula}, d_t = log pi_old(a_t) - log pi_ref(a_t), "
        "beta = {controller}"
    )

    def __init__(self, *, controller: KLController, estimator: Value = "k1") -> None:
        super().__init__()
        self.controller = controller
        self.estimator: Value = estimator

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the shaped reward."""
        mask = batch["response_mask"]
        inputs = batch["old_log_probs"].detach(), batch["ref_log_probs"]
        kl = kl_estimate(*inputs, mask, self.estimator)
        record("kl/in_reward", kl, where=mask)
        paying = ~batch["greedy"] if "greedy" in batch.keys() else None
        penalty = self.controller.penalty(kl, mask, paying)
        batch["reward"] = batch["reward"] - times_kl_weight(penalty, batch)
        return batch
