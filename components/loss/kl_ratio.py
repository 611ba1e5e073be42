"""Unbiased KL penalty for off-policy samples (DeepSeek-V3.2), as a loss term."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.functional.importance import recorded
from rlcomp.functional.kl import RatioEstimator, kl_ratio_estimate
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.interfaces.kl_weight import times_kl_weight
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import record


class KLRatioLoss(TokenLoss):
    """Importance-weighted KL penalty in the loss (DeepSeek-V3.2: "unbiased KL estimate").

    ``loss = beta * sum_t w_t * rho_t * k(d_t)`` with ``rho_t = pi(a_t) / pi_rollout(a_t)``,
    ``d_t = log pi(a_t) - log pi_ref(a_t)``, ``w_t`` = ``loss_weight``; k1 and k3 differentiate
    through ``rho_t``, k2 uses ``sg[rho_t]``.

    ``rho_t`` is always the token-level ratio to the sampling policy, for every ratio of the policy
    loss and every choice of ``old_log_probs``. It is neither clipped nor multiplied by advantages.
    On-policy, and for a token without a recorded log-prob (NaN), its value is 1 but its gradient is
    not 0.

    Reads ``response_mask``, ``log_probs``, ``rollout_log_probs``, ``ref_log_probs`` ``[B, T]``.
    Writes the scalar ``loss``.

    Args:
        controller: the controller of beta.
        estimator: each has the gradient of KL(pi || ref), on samples of any policy.
        reduction: writes ``loss_weight``.

    Source:
        DeepSeek-AI 2025, arXiv:2512.02556, section 3.1, "unbiased KL estimate".
    """

    equation = (
        "loss = beta sum_t w_t {estimator:formula}, rho_t = pi(a_t) / pi_rollout(a_t), d_t "
        "= log pi(a_t) - log pi_ref(a_t), beta = {controller}"
    )
    reads = ("response_mask", "log_probs", "rollout_log_probs", "ref_log_probs")
    optional = ("kl_weight",)
    runs = ("reduction",)
    contained = True
    exclusive = "kl"

    def __init__(
        self,
        *,
        controller: KLController,
        estimator: RatioEstimator = "k3_ratio",
        reduction: Component,
    ) -> None:
        super().__init__(reduction=reduction)
        self.controller = controller
        self.estimator: RatioEstimator = estimator

    def gradient_rows(self, batch: TensorDict) -> Tensor | None:
        """Return all rows; no rows if the coefficient is 0 and the KL is only measured."""
        nothing = torch.zeros(batch.batch_size, dtype=torch.bool)
        return None if self.controller.coef() else nothing

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        mask = batch["response_mask"]
        kl = kl_ratio_estimate(
            batch["log_probs"],
            recorded(batch["rollout_log_probs"], batch["log_probs"]),
            batch["ref_log_probs"],
            mask,
            self.estimator,
        )
        record("kl/in_loss", kl, where=mask)
        kl = times_kl_weight(kl, batch)
        return scalars(loss=self.controller.coef() * (kl * batch["loss_weight"]).sum())
