"""Entropy bonus, as a loss term."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import TokenLoss, scalars


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
