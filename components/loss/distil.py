"""Distillation loss: divergence from a teacher's next-token distribution."""

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

    Value and gradient are exact for a given prefix. On the student's own responses it is on-policy
    distillation, on a teacher's responses or on demonstrations word-level distillation. The
    gradient ignores that the student's later prefixes depend on the student.

    Reads ``response_mask`` ``[B, T]``, ``log_distribution``, ``ref_log_distribution``
    ``[B, T, V]``. Writes the scalar ``loss``. Records ``distil/divergence``, nats per token, and
    ``distil/agreement``, the share of tokens at which both have the same most likely token.

    Args:
        divergence: ``reverse``, ``forward`` or ``jsd``.
        beta: the teacher's share of the mixture of ``jsd``; near 0 it behaves like the forward KL,
            near 1 like the reverse one.
        top_k: number of the teacher's most likely tokens to use, with one bucket for all others;
            null: all.
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
        """Return the scalar loss of these rows."""
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
