"""KL to the reference, as a loss on samples of another policy."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.importance import recorded
from rlcomp.functional.kl import RatioEstimator, kl_ratio_estimate
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.interfaces.loss import Loss, scalars
from rlcomp.metrics import record


class KLRatioLoss(Loss):
    """``loss = beta * sum_t loss_weight_t * rho_t * kl_t`` with ``rho = pi / pi_rollout``.

    The ratio is the token's own, to the policy that sampled it: whatever ratio the policy loss
    uses, and whatever ``proximal`` puts beside the sampler. It is neither clipped nor weighted by
    advantages. On-policy, and where the sampler kept no record (NaN), it is 1; its gradient is not
    0.

    Reads ``response_mask``, ``log_probs``, ``rollout_log_probs``, ``ref_log_probs`` ``[B, T]``.
    Writes the scalar ``loss``.

    Args:
        controller: says what a nat costs.
        estimator: all of them have the gradient of KL(pi || ref), on samples of any policy.
        reduction: writes ``loss_weight``.

    Source:
        DeepSeek-AI 2025, arXiv:2512.02556, section 3.1, "unbiased KL estimate".
    """

    reads = ("response_mask", "log_probs", "rollout_log_probs", "ref_log_probs")
    runs = ("reduction",)
    contained = True
    exclusive = "kl"

    def __init__(
        self, *, controller: KLController, estimator: RatioEstimator, reduction: Component
    ) -> None:
        super().__init__(reduction=reduction)
        self.controller = controller
        self.estimator: RatioEstimator = estimator

    def forward(self, batch: TensorDict) -> TensorDict:
        """The scalar loss of these rows."""
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
        return scalars(loss=self.controller.coef() * (kl * batch["loss_weight"]).sum())
