"""KL to the reference, as a loss."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.check import NonNegativeFloat
from rlcomp.component import Component
from rlcomp.functional.kl import Estimator, kl_estimate
from rlcomp.loss import Loss, scalars
from rlcomp.run.record import record


class KLLoss(Loss):
    """``loss = kl_coef * sum_t loss_weight_t * kl_t``.

    Reads ``response_mask``, ``log_probs``, ``ref_log_probs`` ``[B, T]``. Writes the scalar
    ``loss``.

    Args:
        kl_coef: weight of the term; 0 keeps the metric only.
        estimator: k2 has the gradient of KL(pi || ref); k3 that of KL(ref || pi); k1 none.
        reduction: writes ``loss_weight``.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 4 (k3, in the loss).
    """

    reads = ("response_mask", "log_probs", "ref_log_probs")
    runs = ("reduction",)
    contained = True
    exclusive = "kl"

    def __init__(
        self, *, kl_coef: NonNegativeFloat, estimator: Estimator, reduction: Component
    ) -> None:
        super().__init__(reduction=reduction)
        self.kl_coef = kl_coef
        self.estimator: Estimator = estimator

    def forward(self, batch: TensorDict) -> TensorDict:
        """The scalar loss of these rows."""
        batch = self.weighted(batch)
        mask = batch["response_mask"]
        kl = kl_estimate(batch["log_probs"], batch["ref_log_probs"], mask, self.estimator)
        record("kl/in_loss", kl, where=mask)
        return scalars(loss=self.kl_coef * (kl * batch["loss_weight"]).sum())
