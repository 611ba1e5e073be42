"""KL losses."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import torch
from annotated_types import Interval
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveInt
from rlcomp.component import Component
from rlcomp.functional.distillation import Divergence, coarsen, divergence
from rlcomp.functional.divergence import (
    Estimator,
    RatioEstimator,
    kl_estimate,
    kl_full,
    kl_ratio_estimate,
)
from rlcomp.functional.importance import fill_unrecorded
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.kl_controller import KLController, times_kl_weight
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import record


class _KLInLoss(TokenLoss):
    """Base class of KL penalties in the loss: ``loss = beta * sum_t w_t * KL_t``.

    ``w_t`` = ``loss_weight``. A subclass computes ``KL_t`` in :meth:`kl`. If present, ``kl_weight``
    ``[B]`` multiplies the penalty of its row. Records ``kl/in_loss``, the mean of ``KL_t`` without
    this factor, nats per token.

    Args:
        controller: the controller of beta.
        reduction: writes ``loss_weight``.
    """

    optional = ("kl_weight",)
    runs = ("reduction",)
    contained = True
    exclusive = "kl"

    def __init__(self, *, controller: KLController, reduction: Component) -> None:
        super().__init__(reduction=reduction)
        self.controller = controller

    @abstractmethod
    def kl(self, batch: TensorDict) -> Tensor:
        """Return ``KL_t``, ``[B, T]``, nats, with gradient."""

    def gradient_rows(self, batch: TensorDict) -> Tensor | None:
        """Return None (all rows), or no rows if the coefficient is 0: the KL is only measured."""
        no_rows = torch.zeros(batch.batch_size, dtype=torch.bool)
        return None if self.controller.coef() else no_rows

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        kl = self.kl(batch)
        record("kl/in_loss", kl, where=batch["response_mask"])
        kl = times_kl_weight(kl, batch)
        return scalars(loss=self.controller.coef() * (kl * batch["loss_weight"]).sum())


class KLLoss(_KLInLoss):
    """KL penalty in the loss (GRPO).

    ``loss = beta * sum_t w_t * k(d_t)`` with ``d_t = log pi(a_t) - log pi_ref(a_t)`` and ``w_t`` =
    ``loss_weight``; ``k1(d) = d``, ``k2(d) = d^2 / 2``, ``k3(d) = exp(-d) - 1 + d``.

    Reads ``response_mask``, ``log_probs``, ``ref_log_probs`` ``[B, T]``, and ``kl_weight`` ``[B]``
    if present, a factor of the row's penalty. Writes the scalar ``loss``.

    Args:
        controller: the controller of beta.
        estimator: on samples of the policy, k2, k1_plus and k3_plus have the gradient of
            KL(pi || ref), k3 has the gradient of KL(ref || pi), and k1 has zero expected gradient.
        reduction: writes ``loss_weight``.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 4 (k3, in the loss).
    """

    equation = (
        "loss = beta sum_t w_t {estimator:formula}, d_t = log pi(a_t) - log pi_ref(a_t), beta = "
        "{controller}"
    )
    reads = ("response_mask", "log_probs", "ref_log_probs")

    def __init__(
        self, *, controller: KLController, estimator: Estimator = "k3", reduction: Component
    ) -> None:
        super().__init__(controller=controller, reduction=reduction)
        self.estimator: Estimator = estimator

    def kl(self, batch: TensorDict) -> Tensor:
        """Return the estimate of the KL at each token."""
        mask = batch["response_mask"]
        return kl_estimate(batch["log_probs"], batch["ref_log_probs"], mask, self.estimator)


class KLFullLoss(_KLInLoss):
    """Full-vocabulary KL penalty in the loss.

    ``loss = beta * sum_t w_t * KL_t`` with
    ``KL_t = sum_v pi(v|s_t) (log pi(v|s_t) - log pi_ref(v|s_t))`` and ``w_t`` = ``loss_weight``.

    Value and gradient are exact for a given prefix. Memory: ``B * T * V`` numbers of the
    micro-batch for each distribution and the gradient.

    Reads ``response_mask`` ``[B, T]``, ``log_distribution``, ``ref_log_distribution``
    ``[B, T, V]``, and ``kl_weight`` ``[B]`` if present, a factor of the row's penalty. Writes the
    scalar ``loss``.

    Args:
        controller: the controller of beta.
        reduction: writes ``loss_weight``.

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, eq. 2; the expectation over the token is exact.
    """

    equation = (
        "loss = beta sum_t w_t sum_v pi(v|s_t) (log pi(v|s_t) - log pi_ref(v|s_t)), beta = "
        "{controller}"
    )
    reads = ("response_mask", "log_distribution", "ref_log_distribution")

    def kl(self, batch: TensorDict) -> Tensor:
        """Return the exact KL at each token."""
        return kl_full(
            batch["log_distribution"], batch["ref_log_distribution"], batch["response_mask"]
        )


class KLRatioLoss(_KLInLoss):
    """Importance-weighted KL penalty in the loss (DeepSeek-V3.2: "unbiased KL estimate").

    ``loss = beta * sum_t w_t * rho_t * k(d_t)`` with ``rho_t = pi(a_t) / pi_rollout(a_t)``,
    ``d_t = log pi(a_t) - log pi_ref(a_t)``, ``w_t`` = ``loss_weight``; k1 and k3 differentiate
    through ``rho_t``, k2 uses ``sg[rho_t]``.

    ``rho_t`` is always the token-level ratio to the sampling policy, for every ratio of the policy
    loss and every choice of ``old_log_probs``. It is neither clipped nor multiplied by advantages.
    On-policy, and for a token without a recorded log-prob (NaN), its value is 1 but its gradient is
    not 0.

    Reads ``response_mask``, ``log_probs``, ``rollout_log_probs``, ``ref_log_probs`` ``[B, T]``, and
    ``kl_weight`` ``[B]`` if present, a factor of the row's penalty. Writes the scalar ``loss``.

    Args:
        controller: the controller of beta.
        estimator: each estimator has the gradient of KL(pi || ref), on samples of any policy.
        reduction: writes ``loss_weight``.

    Source:
        DeepSeek-AI 2025, arXiv:2512.02556, section 3.1, "unbiased KL estimate".
    """

    equation = (
        "loss = beta sum_t w_t {estimator:formula}, rho_t = pi(a_t) / pi_rollout(a_t), d_t "
        "= log pi(a_t) - log pi_ref(a_t), beta = {controller}"
    )
    reads = ("response_mask", "log_probs", "rollout_log_probs", "ref_log_probs")

    def __init__(
        self,
        *,
        controller: KLController,
        estimator: RatioEstimator = "k3_ratio",
        reduction: Component,
    ) -> None:
        super().__init__(controller=controller, reduction=reduction)
        self.estimator: RatioEstimator = estimator

    def kl(self, batch: TensorDict) -> Tensor:
        """Return the weighted estimate of the KL at each token."""
        return kl_ratio_estimate(
            batch["log_probs"],
            fill_unrecorded(batch["rollout_log_probs"], batch["log_probs"]),
            batch["ref_log_probs"],
            batch["response_mask"],
            self.estimator,
        )


class DistilLoss(TokenLoss):
    """Distillation loss (GKD): divergence from a teacher's next-token distribution.

    ``loss = c * sum_t w_t * D(pi(.|s_t), pi_T(.|s_t))`` with ``w_t`` = ``loss_weight``, ``c`` =
    ``coef`` and ``D`` = ``KL(pi || pi_T)``, ``KL(pi_T || pi)`` or ``JSD_beta``.

    Value and gradient are exact for a given prefix. On the student's own responses the loss is
    on-policy distillation; on a teacher's responses or on demonstrations it is word-level
    distillation. The gradient ignores that the student's later prefixes depend on the student.

    Reads ``response_mask`` ``[B, T]``, ``log_distribution``, ``ref_log_distribution``
    ``[B, T, V]``. Writes the scalar ``loss``. Records ``distil/divergence``, nats per token, and
    ``distil/agreement``, the share of tokens at which student and teacher have the same most
    likely token.

    Args:
        divergence: D: ``reverse`` is ``KL(pi || pi_T)``, ``forward`` is ``KL(pi_T || pi)``,
            ``jsd`` is ``JSD_beta``.
        beta: the teacher's share of the mixture of ``jsd``; near 0 it behaves like the forward KL,
            near 1 like the reverse KL.
        top_k: number of the teacher's most likely tokens; all other tokens share one bucket. Null:
            all tokens, without a bucket.
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
            student, teacher = coarsen(student, teacher, self.top_k)
        distance = divergence(student, teacher, mask, self.divergence, self.beta)
        record("distil/divergence", distance, where=mask)
        return scalars(loss=self.coef * (distance * batch["loss_weight"]).sum())
