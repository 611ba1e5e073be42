"""BCO: a binary classifier of each answer."""

from __future__ import annotations

from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.preference import bco_loss
from rlcomp.interfaces.preference import Link


class Bco(Link):
    """BCO: a binary classifier of each answer.

    ``l = -log s(b u_w) - log s(-b u_l)``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; small: the policy may move far for a preference.

    Source:
        Jung et al. 2024 (BCO), arXiv:2404.04656, eq. 7 with delta = 0.
    """

    equation = "l = -log s({beta} u_w) - log s(-{beta} u_l)"

    def __init__(self, *, beta: PositiveFloat = 0.1) -> None:
        super().__init__()
        self.beta = beta

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return bco_loss(chosen, rejected, self.beta)
