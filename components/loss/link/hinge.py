"""SLiC: hinge of the margin."""

from __future__ import annotations

from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.preference import hinge_loss
from rlcomp.interfaces.preference import Link


class Hinge(Link):
    """SLiC: hinge of the margin.

    ``l = max(0, 1 - beta m), m = u_w - u_l``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: reciprocal of the margin above which a pair has no gradient.

    Source:
        Zhao et al. 2023 (SLiC-HF), arXiv:2305.10425, eq. 1.
    """

    equation = "l = max(0, 1 - {beta} m), m = u_w - u_l"

    def __init__(self, *, beta: PositiveFloat = 0.1) -> None:
        super().__init__()
        self.beta = beta

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return hinge_loss(self.beta * (chosen - rejected))
