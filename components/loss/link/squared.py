"""IPO: regression of the margin on its target."""

from __future__ import annotations

from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.preference import squared_loss
from rlcomp.interfaces.preference import Link


class Squared(Link):
    """IPO: regression of the margin on its target.

    ``l = (m - 1 / (2 beta))^2, m = u_w - u_l``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: tau of the paper; the target is ``1 / (2 beta)`` nats.

    Source:
        Azar et al. 2023 (IPO), arXiv:2310.12036, eq. 17.
    """

    equation = "l = (m - 1 / (2 * {beta}))^2, m = u_w - u_l"

    def __init__(self, *, beta: PositiveFloat = 0.1) -> None:
        super().__init__()
        self.beta = beta

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return squared_loss(chosen - rejected, self.beta)
