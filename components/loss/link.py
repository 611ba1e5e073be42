"""Links of preference losses: the loss of a pair as a function of the scores of its answers.

``s`` is the logistic function; ``u_w`` and ``u_l`` are the scores of chosen and rejected answer,
``m = u_w - u_l``.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Interval
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.functional.preference import (
    apo_down_loss,
    apo_zero_loss,
    bco_loss,
    discopop_loss,
    exo_loss,
    hinge_loss,
    nca_loss,
    sigmoid_loss,
    sppo_loss,
    squared_loss,
)
from rlcomp.interfaces.preference import LinkFunction


class _ScaledLink(LinkFunction):
    """Base class of links that scale the scores by ``beta``.

    Args:
        beta: scale of the scores, per nat; the smaller it is, the further the policy may move for
            a preference.
    """

    def __init__(self, *, beta: PositiveFloat = 0.1) -> None:
        super().__init__()
        self.beta = beta


class Sigmoid(_ScaledLink):
    """Bradley-Terry link: negative log-likelihood of the preference (DPO, SimPO, CPO, ORPO).

    ``l = -log s(beta m - gamma), m = u_w - u_l``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; the smaller it is, the further the policy may move for
            a preference.
        gamma: target margin of SimPO, in units of ``beta m``.

    Source:
        Rafailov et al. 2023 (DPO), arXiv:2305.18290, eq. 7; Meng et al. 2024 (SimPO),
        arXiv:2405.14734, eq. 6. A flipped label changes the sign of the argument of ``s``, as in
        cDPO (Mitchell 2023).
    """

    equation = "l = -log s({beta} m - {gamma}), m = u_w - u_l"

    def __init__(self, *, beta: PositiveFloat = 0.1, gamma: NonNegativeFloat = 0.0) -> None:
        super().__init__(beta=beta)
        self.gamma = gamma

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return sigmoid_loss(self._argument(chosen, rejected))

    def flipped(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair with its label flipped."""
        return sigmoid_loss(-self._argument(chosen, rejected))

    def _argument(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        return self.beta * (chosen - rejected) - self.gamma


class Hinge(_ScaledLink):
    """SLiC: hinge of the margin.

    ``l = max(0, 1 - beta m), m = u_w - u_l``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: reciprocal of the margin ``m`` above which a pair has no gradient, per nat.

    Source:
        Zhao et al. 2023 (SLiC-HF), arXiv:2305.10425, eq. 1.
    """

    equation = "l = max(0, 1 - {beta} m), m = u_w - u_l"

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return hinge_loss(self.beta * (chosen - rejected))


class SquaredError(_ScaledLink):
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

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return squared_loss(chosen - rejected, self.beta)


class SPPO(_ScaledLink):
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

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return sppo_loss(chosen, rejected, self.beta)


class NCA(_ScaledLink):
    """NCA: noise-contrastive alignment of a pair.

    ``l = -log s(beta u_w) - (1/2) log s(-beta u_w) - (1/2) log s(-beta u_l)``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; the smaller it is, the further the policy may move for
            a preference.

    Source:
        Chen et al. 2024 (NCA), arXiv:2402.05369, eq. 12 for a pair.
    """

    equation = "l = -log s({beta} u_w) - (1/2) log s(-{beta} u_w) - (1/2) log s(-{beta} u_l)"

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return nca_loss(chosen, rejected, self.beta)


class EXO(_ScaledLink):
    """EXO: reverse KL of the policy's preference to the smoothed label.

    ``l = q (log q - log(1 - eps)) + (1 - q) (log(1 - q) - log eps), q = s(beta m)``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; the smaller it is, the further the policy may move for
            a preference.
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
        super().__init__(beta=beta)
        self.epsilon = epsilon

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return exo_loss(self.beta * (chosen - rejected), self.epsilon)


class BCO(_ScaledLink):
    """BCO: a binary classifier of each answer.

    ``l = -log s(beta u_w) - log s(-beta u_l)``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; the smaller it is, the further the policy may move for
            a preference.

    Source:
        Jung et al. 2024 (BCO), arXiv:2404.04656, eq. 7 with delta = 0.
    """

    equation = "l = -log s({beta} u_w) - log s(-{beta} u_l)"

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return bco_loss(chosen, rejected, self.beta)


class DiscoPOP(_ScaledLink):
    """DiscoPOP: mixture of logistic and exponential loss.

    ``l = -(1 - g) log s(z) + g exp(-z), z = beta m, g = s(z / tau)``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; the smaller it is, the further the policy may move for
            a preference.
        tau: temperature of the mixture, below 1.

    Source:
        Lu et al. 2024 (DiscoPOP), arXiv:2406.08414, eq. 5.
    """

    equation = "l = -(1 - g) log s(z) + g exp(-z), z = {beta} m, g = s(z / {tau})"

    def __init__(self, *, beta: PositiveFloat = 0.1, tau: PositiveFloat = 0.05) -> None:
        super().__init__(beta=beta)
        self.tau = tau

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return discopop_loss(self.beta * (chosen - rejected), self.tau)


class APODown(_ScaledLink):
    """APO-down: the log-probs of both answers fall, and the rejected answer falls further.

    ``l = s(beta u_w) + 1 - s(beta (u_w - u_l))``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; the smaller it is, the further the policy may move for
            a preference.

    Source:
        D'Oosterlinck et al. 2024 (APO), arXiv:2408.06266, section 4.
    """

    equation = "l = s({beta} u_w) + 1 - s({beta} (u_w - u_l))"

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return apo_down_loss(chosen, rejected, self.beta)


class APOZero(_ScaledLink):
    """APO-zero: the log-probs of chosen answers rise, and rejected answers fall.

    ``l = 1 - s(beta u_w) + s(beta u_l)``.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``. Writes ``pair_loss``, ``flipped_loss``
    ``[U]``.

    Args:
        beta: scale of the scores, per nat; the smaller it is, the further the policy may move for
            a preference.

    Source:
        D'Oosterlinck et al. 2024 (APO), arXiv:2408.06266, section 4.
    """

    equation = "l = 1 - s({beta} u_w) + s({beta} u_l)"

    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Return the loss of every pair."""
        return apo_zero_loss(chosen, rejected, self.beta)
