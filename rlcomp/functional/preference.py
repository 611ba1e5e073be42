"""Preference losses of pairs, as functions of scores (:mod:`rlcomp.functional.preference_score`).

A score of the chosen (``u_w``) or rejected answer (``u_l``) is a log-ratio to the reference, a
log-prob or log-odds, in nats. ``m = u_w - u_l``; ``s`` is the logistic function, ``b`` is ``beta``.
Scores and losses of ``U`` pairs are ``[U]``; ``argument`` ``z`` is ``[U]`` and dimensionless.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.errors import ConfigError


def sigmoid_loss(argument: Tensor) -> Tensor:
    """Compute DPO's loss ``-log s(z)``, with ``z = beta m - gamma``.

    The negative log-likelihood of the Bradley-Terry model; log 2 at 0.

    Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7; gamma: Meng et al. 2024 (SimPO),
    arXiv:2405.14734, eq. 6.

    Examples:
        >>> sigmoid_loss(torch.tensor([0.13]))
        tensor([0.6303])
    """
    return F.softplus(-argument)


def squared_loss(margin: Tensor, beta: float) -> Tensor:
    """Compute IPO's loss: squared distance of the margin from its target, ``(m - 1 / (2 beta))^2``.

    ``m`` is a difference of sums or of means over tokens; ``beta`` is the paper's tau.

    Source: Azar et al. 2023 (IPO), arXiv:2310.12036, eq. 17.

    Examples:
        >>> squared_loss(torch.tensor([1.3]), 0.1)
        tensor([13.6900])
    """
    return (margin - 1 / (2 * beta)) ** 2


def hinge_loss(argument: Tensor) -> Tensor:
    """Compute SLiC's hinge loss, ``max(0, 1 - z)`` with ``z = beta m``.

    Source: Zhao et al. 2023 (SLiC-HF), arXiv:2305.10425, eq. 1; Liu et al. 2023, arXiv:2309.06657.

    Examples:
        >>> hinge_loss(torch.tensor([0.13, 2.0]))
        tensor([0.8700, 0.0000])
    """
    return (1 - argument).clamp(min=0)


def exo_loss(argument: Tensor, epsilon: float) -> Tensor:
    """Compute EXO's loss of a pair: reverse KL of the policy's preference to the smoothed label.

    ``q (log q - log(1 - eps)) + (1 - q) (log(1 - q) - log eps)`` with ``q = s(beta m)``, and
    ``epsilon`` ``eps`` the probability that the label is wrong. ``argument`` is ``beta m``.
    ConfigError if ``epsilon`` is not in (0, 1).

    Source: Ji et al. 2024 (EXO), arXiv:2402.00856, eq. 17.

    Examples:
        >>> exo_loss(torch.tensor([0.13]), 1e-3)
        tensor([2.5392])
    """
    if not 0 < epsilon < 1:
        raise ConfigError(f"epsilon is {epsilon}: EXO's log(epsilon) needs 0 < epsilon < 1")
    right, wrong = F.logsigmoid(argument), F.logsigmoid(-argument)
    return right.exp() * (right - math.log1p(-epsilon)) + wrong.exp() * (wrong - math.log(epsilon))


def discopop_loss(argument: Tensor, tau: float) -> Tensor:
    """Compute DiscoPOP's mixture of logistic and exponential loss by ``g = s(z / tau)``.

    ``-(1 - g) log s(z) + g exp(-z)`` with ``z = beta m`` and ``tau`` in (0, 1).

    Source: Lu et al. 2024 (DiscoPOP), arXiv:2406.08414, eq. 5.

    Examples:
        >>> discopop_loss(torch.tensor([0.13]), 0.05)
        tensor([0.8610])
    """
    # exp(-z) alone overflows where g is 0.
    exponential = (F.logsigmoid(argument / tau) - argument).exp()
    return F.softplus(-argument) * torch.sigmoid(-argument / tau) + exponential


def sppo_loss(chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
    """Compute SPPO's loss with hard labels: ``(u_w - 1 / (2 beta))^2 + (u_l + 1 / (2 beta))^2``.

    ``beta`` is 1 / eta of the paper.

    Source: Wu et al. 2024 (SPPO), arXiv:2405.00675, eq. 4.8.

    Examples:
        >>> sppo_loss(torch.tensor([0.5]), torch.tensor([-0.8]), 0.1)
        tensor([37.8900])
    """
    target = 1 / (2 * beta)
    return (chosen - target) ** 2 + (rejected + target) ** 2


def nca_loss(chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
    """Compute NCA's noise-contrastive loss of a pair; it keeps the chosen likelihood up.

    ``-log s(b u_w) - (1/2) log s(-b u_w) - (1/2) log s(-b u_l)``; 2 log 2 at 0.

    Source: Chen et al. 2024 (NCA), arXiv:2402.05369, eq. 12 for a pair.

    Examples:
        >>> nca_loss(torch.tensor([0.5]), torch.tensor([-0.8]), 0.1)
        tensor([1.3547])
    """
    others = F.softplus(beta * chosen) + F.softplus(beta * rejected)
    return F.softplus(-beta * chosen) + others / 2


def bco_loss(chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
    """Compute BCO's loss of a pair without the running shift: a binary classifier of each side.

    ``-log s(b u_w) - log s(-b u_l)``; 2 log 2 at 0.

    Source: Jung et al. 2024 (BCO), arXiv:2404.04656, eq. 7 with delta = 0.

    Examples:
        >>> bco_loss(torch.tensor([0.5]), torch.tensor([-0.8]), 0.1)
        tensor([1.3224])
    """
    return F.softplus(-beta * chosen) + F.softplus(beta * rejected)


def apo_zero_loss(chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
    """Compute APO-zero's loss, chosen up and rejected down: ``1 - s(b u_w) + s(b u_l)``.

    Source: D'Oosterlinck et al. 2024 (APO), arXiv:2408.06266, section 4.

    Examples:
        >>> apo_zero_loss(torch.tensor([0.5]), torch.tensor([-0.8]), 0.1)
        tensor([0.9675])
    """
    return torch.sigmoid(-beta * chosen) + torch.sigmoid(beta * rejected)


def apo_down_loss(chosen: Tensor, rejected: Tensor, beta: float) -> Tensor:
    """Compute APO-down's loss: both likelihoods down, the rejected one further.

    ``s(b u_w) + 1 - s(b (u_w - u_l))``, for a policy that is better than the chosen answers.

    Source: D'Oosterlinck et al. 2024 (APO), arXiv:2408.06266, section 4.

    Examples:
        >>> apo_down_loss(torch.tensor([0.5]), torch.tensor([-0.8]), 0.1)
        tensor([0.9800])
    """
    return torch.sigmoid(beta * chosen) + torch.sigmoid(-beta * (chosen - rejected))


def kto_loss(
    score: Tensor,
    desirable: Tensor,
    baseline: Tensor,
    beta: float,
    desirable_weight: float,
    undesirable_weight: float,
) -> Tensor:
    """Compute KTO's loss: the value of a single answer against a reference point.

    ``lambda_D (1 - s(b (h - z0)))`` for a desirable answer, ``lambda_U (1 - s(b (z0 - h)))`` for an
    undesirable one. ``baseline`` is ``z0``, ``[B]`` or ``[]``, detached; the weights are the
    lambdas. ``score`` ``h``, ``desirable`` (bool) and the loss are ``[B]``.

    Source: Ethayarajh et al. 2024 (KTO), arXiv:2402.01306, eq. 8, without the constant.

    Examples:
        >>> kto_loss(torch.tensor([0.5]), torch.tensor([True]), torch.tensor(0.2), 0.1, 1.0, 1.0)
        tensor([0.4925])
    """
    gain = beta * (score - baseline.detach())
    return torch.where(
        desirable,
        desirable_weight * torch.sigmoid(-gain),
        undesirable_weight * torch.sigmoid(gain),
    )


def label_noise_loss(right: Tensor, flipped: Tensor, noise: Tensor, *, unbiased: bool) -> Tensor:
    """Correct the loss for labels that are wrong with a known probability ``e``.

    cDPO (smoothed): ``(1 - e) l + e l'``. Robust DPO (unbiased): ``((1 - e) l - e l') / (1 - 2e)``,
    whose expectation over wrong labels is ``l``. ``right`` ``l`` is the loss of the given label,
    ``flipped`` ``l'`` the loss of the flipped label and ``noise`` ``e``, all ``[U]``. ConfigError
    if a label has ``e`` of at least 1/2 in the unbiased form.

    Source: Mitchell 2023, "A note on DPO with noisy preferences" (cDPO); Chowdhury et al. 2024
    (rDPO), arXiv:2403.00409, eq. 12.

    Examples:
        >>> right, flipped = torch.tensor([0.630258]), torch.tensor([0.760258])
        >>> label_noise_loss(right, flipped, torch.tensor([0.1]), unbiased=True)
        tensor([0.6140])
    """
    if not unbiased:
        return (1 - noise) * right + noise * flipped
    if bool((noise >= 0.5).any()):
        raise ConfigError(
            f"labels are wrong with probability {float(noise.max()):.3g}: an unbiased loss needs "
            "less than 0.5; leave such annotators out, or set loss.unbiased=false"
        )
    return ((1 - noise) * right - noise * flipped) / (1 - 2 * noise)
