"""Full-vocabulary KL penalty to the reference policy, as a loss term."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.kl import kl_full
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.interfaces.kl_weight import times_kl_weight
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import record


class KLFullLoss(TokenLoss):
    """Full-vocabulary KL penalty in the loss.

    ``loss = beta * sum_t w_t * KL_t`` with
    ``KL_t = sum_v pi(v|s_t) (log pi(v|s_t) - log pi_ref(v|s_t))`` and ``w_t`` = ``loss_weight``.

    Value and gradient are exact for a given prefix. Memory: ``B * T * V`` numbers of the
    micro-batch for each distribution and the gradient.

    Reads ``response_mask`` ``[B, T]``, ``log_distribution``, ``ref_log_distribution``
    ``[B, T, V]``. Writes the scalar ``loss``.

    Args:
        controller: the controller of beta.
        reduction: writes ``loss_weight``.

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, eq. 2, with the expectation over the token taken.
    """

    equation = (
        "loss = beta sum_t w_t sum_v pi(v|s_t) (log pi(v|s_t) - log pi_ref(v|s_t)), beta = "
        "{controller}"
    )
    reads = ("response_mask", "log_distribution", "ref_log_distribution")
    optional = ("kl_weight",)
    runs = ("reduction",)
    contained = True
    exclusive = "kl"

    def __init__(self, *, controller: KLController, reduction: Component) -> None:
        super().__init__(reduction=reduction)
        self.controller = controller

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        mask = batch["response_mask"]
        kl = kl_full(batch["log_distribution"], batch["ref_log_distribution"], mask)
        record("kl/in_loss", kl, where=mask)
        kl = times_kl_weight(kl, batch)
        return scalars(loss=self.controller.coef() * (kl * batch["loss_weight"]).sum())
