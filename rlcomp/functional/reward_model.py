"""Losses of reward models: functions of the scalar score ``r(x, y)`` of an answer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def bradley_terry_loss(chosen: Tensor, rejected: Tensor, margin: Tensor | float = 0.0) -> Tensor:
    """Compute the negative log-likelihood of the Bradley-Terry model, ``-log s(r_w - r_l - mu)``.

    A constant added to both scores changes nothing; :func:`centring_penalty` fixes their level.

    Args:
        chosen: ``r_w``, shape ``[U]``.
        rejected: ``r_l``, shape ``[U]``.
        margin: ``mu``, the required lead of the chosen answer; shape ``[U]``.

    Returns:
        Shape ``[U]``, nats; log 2 where ``r_w - r_l = mu``.

    Source:
        Bradley and Terry 1952; Ouyang et al. 2022 (InstructGPT), arXiv:2203.02155, eq. 1; margin:
        Touvron et al. 2023 (Llama 2), arXiv:2307.09288, eq. 2.

    Examples:
        >>> bradley_terry_loss(torch.tensor([1.0]), torch.tensor([0.5]), 0.5)
        tensor([0.6931])
    """
    return F.softplus(margin - (chosen - rejected))


def davidson_loss(chosen: Tensor, rejected: Tensor, log_nu: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the negative log-likelihoods of a win and of a tie in Davidson's model.

    ``P(w) = e^{r_w} / Z``, ``P(tie) = nu e^{(r_w + r_l) / 2} / Z``, ``Z = e^{r_w} + e^{r_l} + nu
    e^{(r_w + r_l) / 2}``. Given that there is no tie it is the Bradley-Terry model; ``nu`` -> 0
    gives :func:`bradley_terry_loss`. Equal answers tie with probability ``nu / (2 + nu)``.

    Args:
        chosen: ``r_w``, shape ``[U]``.
        rejected: ``r_l``, shape ``[U]``.
        log_nu: log of the tie parameter, a scalar.

    Returns:
        ``-log P(w)`` and ``-log P(tie)``, shape ``[U]`` each, nats.

    Source:
        Davidson 1970, Journal of the American Statistical Association 65(329), eq. 2.3.

    Examples:
        >>> win, tie = davidson_loss(torch.zeros(1), torch.zeros(1), torch.tensor(2.0).log())
        >>> round(win.exp().item(), 4), round(tie.exp().item(), 4)  # 1/4 and 2/4
        (4.0, 2.0)
    """
    half = (chosen - rejected) / 2
    weights = torch.stack([half, -half, log_nu.expand_as(half)])
    total = weights.logsumexp(0)
    return total - half, total - log_nu


def centring_penalty(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Compute ``(r_w + r_l)^2``, which fixes the level of the scores.

    Args:
        chosen: ``r_w``, shape ``[U]``.
        rejected: ``r_l``, shape ``[U]``.

    Returns:
        Shape ``[U]``; 0 where ``r_w = -r_l``.

    Source:
        Eisenstein et al. 2023, arXiv:2312.09244.

    Examples:
        >>> centring_penalty(torch.tensor([2.0]), torch.tensor([-1.0]))
        tensor([1.])
    """
    return (chosen + rejected) ** 2


def plackett_luce_loss(score: Tensor, rating: Tensor) -> Tensor:
    """Compute the negative log-likelihood of the Plackett-Luce model of a ranking of ``K`` answers.

    ``-log prod_k e^{r_(k)} / sum_{j >= k} e^{r_(j)}``, ``r_(1)`` the score of the best answer.
    Equal ratings use Breslow's form: each of them is chosen out of all that are no better. With two
    answers it is :func:`bradley_terry_loss`.

    Args:
        score: ``r``, shape ``[U, K]``.
        rating: ratings of the answers, the best highest; shape ``[U, K]``.

    Returns:
        Shape ``[U]``, nats; 0 if all ratings are equal.

    Source:
        Plackett 1975; Luce 1959; ties: Breslow 1974, Biometrics 30.

    Examples:
        >>> score, rating = torch.zeros(1, 3), torch.tensor([[1.0, 3.0, 2.0]])
        >>> round(float(plackett_luce_loss(score, rating).exp()), 4)  # 3! orders
        6.0
    """
    no_better = rating[:, None, :] <= rating[:, :, None]  # [U, k, j]: j is one of those left to k
    # A finite stand-in for -inf, so that its gradient is never NaN.
    among = score[:, None, :].masked_fill(~no_better, torch.finfo(score.dtype).min)
    each = among.logsumexp(2) - score
    beats_one = (rating[:, None, :] < rating[:, :, None]).any(2)
    return torch.where(beats_one, each, torch.zeros_like(each)).sum(1)
