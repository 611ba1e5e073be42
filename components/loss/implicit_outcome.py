"""Cross-entropy of an implicit reward model on outcomes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.errors import DataError
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.metrics import record


class ImplicitOutcome(RowLoss):
    """Cross-entropy of an implicit reward model on outcomes (PRIME).

    ``loss = -sum_i w_i (R_i log s(r_i) + (1 - R_i) log s(-r_i))`` with
    ``r = beta sum_t (log pi_phi(a_t) - log pi_ref(a_t))``. Labels are of whole answers, yet the
    terms of the sum serve as token rewards.

    Reads ``log_probs`` (pi_phi's), ``ref_log_probs``, ``response_mask`` ``[B, T]`` and ``reward``
    ``[B]``, in [0, 1]. Writes the scalar ``loss``, nats per answer.

    Records ``implicit_reward/accuracy``, the share of answers for which ``reward > 1/2`` and
    ``r > 0`` agree.

    Args:
        beta: the beta of the rewards, ``implicit_process.beta``.

    Raises:
        DataError: a reward is not in [0, 1].

    Source:
        Cui et al. 2025 (PRIME), arXiv:2502.01456, eq. 5.
    """

    equation = (
        "loss = -sum_i w_i (R_i log s(r_i) + (1 - R_i) log s(-r_i)), r = {beta} sum_t "
        "(log pi_phi(a_t) - log pi_ref(a_t))"
    )
    reads = ("log_probs", "ref_log_probs", "response_mask", "reward")

    def __init__(self, *, beta: PositiveFloat = 0.05) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these answers."""
        batch = self.weighted(batch)
        mask, weight = batch["response_mask"], batch["row_weight"]
        counts, target = weight > 0, masked(batch["reward"].detach(), weight > 0)
        wrong = target[~((target >= 0) & (target <= 1))]  # NaN is not in [0, 1] either
        if len(wrong):
            raise DataError(
                f"an answer has the reward {float(wrong[0]):g}: an outcome is from 0 (wrong) to 1 "
                "(right); use such a reward, and put shaping behind the learner of the reward model"
            )
        ratio = masked(batch["log_probs"], mask) - masked(batch["ref_log_probs"].detach(), mask)
        score = self.beta * ratio.sum(1)
        record("implicit_reward/accuracy", (score.detach() > 0) == (target > 0.5), where=counts)
        each = F.binary_cross_entropy_with_logits(score, target.to(score.dtype), reduction="none")
        return scalars(loss=torch.where(counts, each * weight, 0.0).sum())
