"""APO-down: both answers down, the rejected one further."""

from __future__ import annotations

from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.preference import apo_down_loss
from rlcomp.interfaces.preference import Link


class ApoDown(Link):
    """APO-down: both answers down, the rejected one further.

    ``l = s(b u_w) + 1 - s(b (u_w - u_l))``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; small: the policy may move far for a preference.

    Source:
        D'Oosterlinck et al. 2024 (APO), arXiv:2408.06266, section 4.
    """

    equation = "l = s({beta} u_w) + 1 - s({beta} (u_w - u_l))"

    def __init__(self, *, beta: PositiveFloat = 0.1) -> None:
        super().__init__()
        self.beta = beta

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return apo_down_loss(chosen, rejected, self.beta)
