"""KL penalty in the token rewards (PPO in RLHF, REINFORCE++)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.kl import Value, kl_estimate
from rlcomp.functional.masked import masked
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.interfaces.kl_weight import times_kl_weight
from rlcomp.metrics import record


class KLInTokenReward(Component):
    """KL penalty in the token rewards (PPO in RLHF, REINFORCE++).

    ``r_t <- r_t - beta * k(d_t)`` with ``d_t = log pi_old(a_t) - log pi_ref(a_t)``. The return
    credits a token with the KL from itself on.

    A group baseline uses outcome rewards only and does not include the penalty. A critic's value
    includes it.

    Reads ``response_mask``, ``old_log_probs``, ``ref_log_probs`` ``[B, T]``, and ``token_reward``
    ``[B, T]`` if an earlier stage wrote it. Writes ``token_reward``.

    Args:
        controller: the controller of beta; updated from the measured KL.
        estimator: k1 makes the policy gradient that of KL(pi || ref).

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, eq. 2; Hu 2025 (REINFORCE++), arXiv:2501.03262.
    """

    reads = ("response_mask", "old_log_probs", "ref_log_probs")
    writes = ("token_reward",)
    must_reach = ("token_reward",)
    optional = ("token_reward", "kl_weight")
    exclusive = "kl"
    equation = (
        "r_t <- r_t - beta {estimator:formula}, d_t = log pi_old(a_t) - log pi_ref(a_t), "
        "beta = {controller}"
    )

    def __init__(self, *, controller: KLController, estimator: Value = "k1") -> None:
        super().__init__()
        self.controller = controller
        self.estimator: Value = estimator

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the rewards of the tokens."""
        mask = batch["response_mask"]
        inputs = batch["old_log_probs"].detach(), batch["ref_log_probs"]
        kl = kl_estimate(*inputs, mask, self.estimator)
        record("kl/in_token_reward", kl, where=mask)
        reward = -self.controller.coef_then_observe(kl, mask) * times_kl_weight(kl, batch)
        if "token_reward" in batch.keys():
            reward = reward + masked(batch["token_reward"].detach(), mask)
        batch["token_reward"] = reward
        return batch
