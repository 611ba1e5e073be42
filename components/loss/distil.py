"""Distillation: divergence from a teacher's next-token distribution, as a loss."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Interval
from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveInt
from rlcomp.component import Component
from rlcomp.functional.distillation import Divergence, coarsened, divergence
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import record


class DistilLoss(TokenLoss):
    """Distillation loss (GKD): divergence from a teacher's next-token distribution.

    ``loss = c * sum_t w_t * D(pi(.|s_t), pi_T(.|s_t))`` with ``w_t`` = ``loss_weight``, ``c`` =
    ``coef`` and ``D`` = ``KL(pi || pi_T)``, ``KL(pi_T || pi)`` or ``JSD_beta``.

    Value and gradient are exact given the prefix, whoever wrote it: on the student's own responses
    it is on-policy distillation, on a teacher's or on demonstrations word-level distillation. That
    the student's later prefixes depend on it has no part in the gradient.

    Reads ``response_mask`` ``[B, T]``, ``log_distribution``, ``ref_log_distribution``
    ``[B, T, V]``. Writes the scalar ``loss``. Records ``distil/divergence``, nats a token, and
    ``distil/agreement``, the share of tokens at which both think the same token likeliest.

    Args:
        divergence: ``reverse``, ``forward`` or ``jsd``.
        beta: of ``jsd``: the teacher's share of the mixture; near 0 it behaves as the forward KL,
            near 1 as the reverse one.
        top_k: the teacher's so many likeliest tokens, and one bucket for all others; null: all.
        coef: c, weight of the loss.
        reduction: writes ``loss_weight``.

    Source:
        Agarwal et al. 2023 (GKD), arXiv:2306.13649, eqs. 1 to 4.
    """

    equation = "loss = {coef} sum_t w_t D_t(pi, pi_teacher), D = {divergence}"
    reads = ("response_mask", "log_distribution", "ref_log_distribution")
    runs = ("reduction",)
    contained = True

    def __init__(
        self,
        *,
        divergence: Divergence = "reverse",
        beta: Annotated[float, Interval(gt=0, lt=1)] = 0.5,
        top_k: PositiveInt | None = None,
        coef: NonNegativeFloat = 1.0,
        reduction: Component,
    ) -> None:
        super().__init__(reduction=reduction)
        self.divergence: Divergence = divergence
        self.beta = beta
        self.top_k = top_k
        self.coef = coef

    def forward(self, batch: TensorDict) -> TensorDict:
        """The scalar loss of these rows."""
        batch = self.weighted(batch)
        mask = batch["response_mask"]
        student = masked(batch["log_distribution"], mask[..., None])
        teacher = masked(batch["ref_log_distribution"], mask[..., None])
        record("distil/agreement", student.argmax(-1) == teacher.argmax(-1), where=mask)
        if self.top_k is not None:
            student, teacher = coarsened(student, teacher, self.top_k)
        apart = divergence(student, teacher, mask, self.divergence, self.beta)
        record("distil/divergence", apart, where=mask)
        return scalars(loss=self.coef * (apart * batch["loss_weight"]).sum())
