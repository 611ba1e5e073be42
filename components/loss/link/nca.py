"""NCA: noise-contrastive alignment of a pair."""

from __future__ import annotations

from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.preference import nca_loss
from rlcomp.interfaces.preference import Link


class Nca(Link):
    """NCA: noise-contrastive alignment of a pair.

    ``l = -log s(b u_w) - (1/2) log s(-b u_w) - (1/2) log s(-b u_l)``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; small: the policy may move far for a preference.

    Source:
        Chen et al. 2024 (NCA), arXiv:2402.05369, eq. 12 of a pair.
    """

    equation = "l = -log s({beta} u_w) - (1/2) log s(-{beta} u_w) - (1/2) log s(-{beta} u_l)"

    def __init__(self, *, beta: PositiveFloat = 0.1) -> None:
        super().__init__()
        self.beta = beta

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return nca_loss(chosen, rejected, self.beta)
