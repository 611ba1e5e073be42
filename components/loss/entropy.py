"""A bonus for entropy, as a loss."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import Loss, scalars


class EntropyLoss(Loss):
    """``loss = -entropy_coef * sum_t loss_weight_t * entropy_t``.

    The gradient runs through the whole distribution: the log-prob of the taken token would have
    none in expectation.

    Reads ``response_mask``, ``entropy`` ``[B, T]``. Writes the scalar ``loss``.

    Args:
        entropy_coef: what a nat per token is worth, in reward units.
        reduction: writes ``loss_weight``.

    Source:
        Williams & Peng 1991, "Function optimization using connectionist reinforcement learning
        algorithms"; Mnih et al. 2016, arXiv:1602.01783, section 4.
    """

    reads = ("response_mask", "entropy")
    runs = ("reduction",)
    contained = True

    def __init__(self, *, entropy_coef: NonNegativeFloat, reduction: Component) -> None:
        super().__init__(reduction=reduction)
        self.entropy_coef = entropy_coef

    def forward(self, batch: TensorDict) -> TensorDict:
        """The scalar loss of these rows."""
        batch = self.weighted(batch)
        entropy = masked(batch["entropy"], batch["response_mask"])
        return scalars(loss=-self.entropy_coef * (entropy * batch["loss_weight"]).sum())
