"""DiscoPOP: mixture of logistic and exponential loss."""

from __future__ import annotations

from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.preference import discopop_loss
from rlcomp.interfaces.preference import Link


class DiscoPOP(Link):
    """DiscoPOP: mixture of logistic and exponential loss.

    ``l = -(1 - g) log s(z) + g exp(-z), z = beta m, g = s(z / tau)``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; small: the policy may move far for a preference.
        tau: temperature of the mixture, below 1.

    Source:
        Lu et al. 2024 (DiscoPOP), arXiv:2406.08414, eq. 5.
    """

    equation = "l = -(1 - g) log s(z) + g exp(-z), z = {beta} m, g = s(z / {tau})"

    def __init__(self, *, beta: PositiveFloat = 0.1, tau: PositiveFloat = 0.05) -> None:
        super().__init__()
        self.beta = beta
        self.tau = tau

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return discopop_loss(self.beta * (chosen - rejected), self.tau)
