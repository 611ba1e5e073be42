"""Entropy losses."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.kl_coefficient import adaptive_entropy_coef
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import record


class EntropyLoss(TokenLoss):
    """Entropy bonus.

    ``loss = -c_H * sum_t w_t * H_t`` with ``H_t = -sum_v pi(v|s_t) log pi(v|s_t)``, ``c_H`` =
    ``entropy_coef`` and ``w_t`` = ``loss_weight``.

    The gradient runs through the full distribution: the estimate ``-log pi(a_t|s_t)`` from the
    sampled token has zero expected gradient.

    Reads ``response_mask``, ``entropy`` ``[B, T]``. Writes the scalar ``loss``.

    Args:
        entropy_coef: c_H, coefficient of the bonus, in reward units per nat.
        reduction: writes ``loss_weight``.

    Source:
        Williams & Peng 1991, "Function optimization using connectionist reinforcement learning
        algorithms"; Mnih et al. 2016, arXiv:1602.01783, section 4.
    """

    equation = "loss = -{entropy_coef} sum_t w_t H_t"
    reads = ("response_mask", "entropy")
    runs = ("reduction",)
    contained = True

    def __init__(self, *, entropy_coef: NonNegativeFloat = 0.01, reduction: Component) -> None:
        super().__init__(reduction=reduction)
        self.entropy_coef = entropy_coef

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        entropy = masked(batch["entropy"], batch["response_mask"])
        return scalars(loss=-self.entropy_coef * (entropy * batch["loss_weight"]).sum())


class AdaptiveEntropyLoss(TokenLoss):
    """Adaptive entropy bonus (Skywork-OR1).

    ``loss = -c * 1[H <= H_target] * sum_t w_t * H_t`` with ``w_t`` = ``loss_weight``.

    After each optimiser step, with ``H`` its mean entropy per token:
    ``c <- min(c + step, maximum)`` if ``H <= H_target``, else ``c <- max(c - step, 0)``. The bonus
    is active only while the last ``H`` is at or below the target.

    Reads ``response_mask``, ``entropy`` ``[B, T]``. Writes the scalar ``loss``. Records
    ``entropy_bonus/coef``, ``c`` of the optimiser step, also while the bonus is not active.

    Args:
        entropy_coef: initial ``c``, in reward units per nat.
        target: H_target, mean entropy of an optimiser step, in nats per token.
        step: change of ``c`` per optimiser step, in units of ``c``.
        maximum: largest ``c``; the smallest is 0.
        reduction: writes ``loss_weight``.

    Source:
        He et al. 2025 (Skywork Open Reasoner 1), arXiv:2505.22312.
    """

    equation = (
        "loss = -c 1[H <= {target}] sum_t w_t H_t, c from {entropy_coef} by {step} to at most "
        "{maximum}"
    )
    reads = ("response_mask", "entropy")
    runs = ("reduction",)
    contained = True

    entropy_coef: Tensor
    last: Tensor
    total: Tensor
    count: Tensor

    def __init__(
        self,
        *,
        entropy_coef: NonNegativeFloat = 0.0,
        target: NonNegativeFloat = 0.2,
        step: PositiveFloat = 0.005,
        maximum: NonNegativeFloat = 1.0,
        reduction: Component,
    ) -> None:
        super().__init__(reduction=reduction)
        self.target = target
        self.step = step
        self.maximum = maximum
        # ``last`` is the mean entropy of the last step with tokens; ``total`` is this step's sum
        # over ``count`` tokens. NaN: no measurement yet; it is not below any target.
        initial = {"entropy_coef": entropy_coef, "last": float("nan"), "total": 0.0, "count": 0.0}
        for name, value in initial.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        mask = batch["response_mask"]
        entropy = masked(batch["entropy"], mask)
        self.total += entropy.detach().double().sum()
        self.count += mask.sum()
        coef = float(self.entropy_coef) if float(self.last) <= self.target else 0.0
        return scalars(loss=-coef * (entropy * batch["loss_weight"]).sum())

    def after_step(self) -> None:
        """Update the coefficient from the mean entropy over all micro-batches."""
        super().after_step()
        record("entropy_bonus/coef", float(self.entropy_coef))
        if not self.count:  # a step without tokens keeps the last entropy
            return
        self.last.copy_(self.total / self.count)
        coef = adaptive_entropy_coef(
            float(self.entropy_coef),
            float(self.last),
            target=self.target,
            step=self.step,
            maximum=self.maximum,
        )
        self.entropy_coef.fill_(coef)
        self.total.zero_()
        self.count.zero_()
