"""SPPO with hard labels: regression of each score on its own target."""

from __future__ import annotations

from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.preference import sppo_loss
from rlcomp.interfaces.preference import Link


class Sppo(Link):
    """SPPO with hard labels: regression of each score on its own target.

    ``l = (u_w - 1 / (2 beta))^2 + (u_l + 1 / (2 beta))^2``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: 1 / eta of the paper; targets are ``+-1 / (2 beta)`` nats.

    Source:
        Wu et al. 2024 (SPPO), arXiv:2405.00675, eq. 4.8.
    """

    equation = "l = (u_w - 1 / (2 * {beta}))^2 + (u_l + 1 / (2 * {beta}))^2"

    def __init__(self, *, beta: PositiveFloat = 0.1) -> None:
        super().__init__()
        self.beta = beta

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return sppo_loss(chosen, rejected, self.beta)
