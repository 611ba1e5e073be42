"""Bradley-Terry link: negative log-likelihood of the preference (DPO, SimPO, CPO, ORPO)."""

from __future__ import annotations

from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.functional.preference import sigmoid_loss
from rlcomp.interfaces.preference import Link


class Sigmoid(Link):
    """Bradley-Terry link: negative log-likelihood of the preference (DPO, SimPO, CPO, ORPO).

    ``l = -log s(beta m - gamma), m = u_w - u_l``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; small: the policy may move far for a preference.
        gamma: target margin of SimPO, in units of ``beta m``.

    Source:
        Rafailov et al. 2023 (DPO), arXiv:2305.18290, eq. 7; Meng et al. 2024 (SimPO),
        arXiv:2405.14734, eq. 6; the flipped label as in cDPO (Mitchell 2023): the argument changes
        its sign.
    """

    equation = "l = -log s({beta} m - {gamma}), m = u_w - u_l"

    def __init__(self, *, beta: PositiveFloat = 0.1, gamma: NonNegativeFloat = 0.0) -> None:
        super().__init__()
        self.beta = beta
        self.gamma = gamma

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return sigmoid_loss(self._argument(chosen, rejected))

    def flipped(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair with its label flipped: the argument changes its sign."""
        return sigmoid_loss(-self._argument(chosen, rejected))

    def _argument(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        return self.beta * (chosen - rejected) - self.gamma
