"""EXO: reverse KL from the smoothed label to the preference of the policy."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Interval
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.preference import exo_loss
from rlcomp.interfaces.preference import Link


class Exo(Link):
    """EXO: reverse KL from the smoothed label to the preference of the policy.

    ``l = q (log q - log(1 - eps)) + (1 - q) (log(1 - q) - log eps), q = s(beta m)``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; small: the policy may move far for a preference.
        epsilon: probability that a label is wrong, between 0 and 1.

    Source:
        Ji et al. 2024 (EXO), arXiv:2402.00856, eq. 17.
    """

    equation = (
        "l = q (log q - log(1 - {epsilon})) + (1 - q) (log(1 - q) - log {epsilon}), q = s({beta} m)"
    )

    def __init__(
        self, *, beta: PositiveFloat = 0.1, epsilon: Annotated[float, Interval(gt=0, lt=1)] = 1e-3
    ) -> None:
        super().__init__()
        self.beta = beta
        self.epsilon = epsilon

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return exo_loss(self.beta * (chosen - rejected), self.epsilon)
