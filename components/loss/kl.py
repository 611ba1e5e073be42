"""KL penalty to the reference policy, as a loss term."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.functional.kl import Estimator, kl_estimate
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.interfaces.kl_weight import times_kl_weight
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import record


class KLLoss(TokenLoss):
    """KL penalty in the loss (GRPO).

    ``loss = beta * sum_t w_t * k(d_t)`` with ``d_t = log pi(a_t) - log pi_ref(a_t)`` and ``w_t`` =
    ``loss_weight``; ``k1(d) = d``, ``k2(d) = d^2 / 2``, ``k3(d) = exp(-d) - 1 + d``.

    Reads ``response_mask``, ``log_probs``, ``ref_log_probs`` ``[B, T]``. Writes the scalar
    ``loss``.

    Args:
        controller: the controller of beta.
        estimator: on samples of the policy, k2, k1_plus and k3_plus have the gradient of
            KL(pi || ref), k3 that of KL(ref || pi), and k1 zero expected gradient.
        reduction: writes ``loss_weight``.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 4 (k3, in the loss).
    """

    equation = (
        "loss = beta sum_t w_t {estimator:formula}, d_t = log pi(a_t) - log pi_ref(a_t), beta = "
        "{controller}"
    )
    reads = ("response_mask", "log_probs", "ref_log_probs")
    optional = ("kl_weight",)
    runs = ("reduction",)
    contained = True
    exclusive = "kl"

    def __init__(
        self, *, controller: KLController, estimator: Estimator = "k3", reduction: Component
    ) -> None:
        super().__init__(reduction=reduction)
        self.controller = controller
        self.estimator: Estimator = estimator

    def gradient_rows(self, batch: TensorDict) -> Tensor | None:
        """Return all rows; no rows if the coefficient is 0 and the KL is only measured."""
        nothing = torch.zeros(batch.batch_size, dtype=torch.bool)
        return None if self.controller.coef() else nothing

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        mask = batch["response_mask"]
        kl = kl_estimate(batch["log_probs"], batch["ref_log_probs"], mask, self.estimator)
        record("kl/in_loss", kl, where=mask)
        kl = times_kl_weight(kl, batch)
        return scalars(loss=self.controller.coef() * (kl * batch["loss_weight"]).sum())
