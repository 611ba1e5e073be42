"""Losses of reward models, and ensembles of them.

Scores of the chosen (``r_w``) and rejected answers (``r_l``) are ``[U]``, in log-odds; ``s`` is the
logistic function. Losses are ``[U]``, in nats, unless stated otherwise.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.errors import NumericalError, ShapeError
from rlcomp.functional.reduction import masked


def bradley_terry_loss(chosen: Tensor, rejected: Tensor, margin: Tensor | float = 0.0) -> Tensor:
    """Compute ``-log s(r_w - r_l - mu)``; ``margin`` ``mu`` is the required lead.

    A constant added to both scores changes nothing; :func:`centring_penalty` fixes their level.

    Source: Bradley and Terry 1952; Ouyang et al. 2022 (InstructGPT), arXiv:2203.02155, eq. 1;
    margin: Touvron et al. 2023 (Llama 2), arXiv:2307.09288, eq. 2.

    Examples:
        >>> bradley_terry_loss(torch.tensor([1.0]), torch.tensor([0.5]), 0.5)
        tensor([0.6931])
    """
    return F.softplus(margin - (chosen - rejected))


def davidson_loss(chosen: Tensor, rejected: Tensor, log_nu: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``-log P(w)`` and ``-log P(tie)`` in Davidson's model, ``[U]`` each.

    ``P(w) = e^{r_w} / Z``, ``P(tie) = nu e^{(r_w + r_l) / 2} / Z``,
    ``Z = e^{r_w} + e^{r_l} + nu e^{(r_w + r_l) / 2}``. ``log_nu`` is a scalar. Given that there is
    no tie it is the Bradley-Terry model; ``nu`` -> 0 gives :func:`bradley_terry_loss`. Answers of
    equal scores tie with probability ``nu / (2 + nu)``.

    Source: Davidson 1970, Journal of the American Statistical Association 65(329), eq. 2.3.

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
    """Compute ``(r_w + r_l)^2``, which fixes the level of the scores; ``[U]``, squared log-odds.

    Source: Eisenstein et al. 2023, arXiv:2312.09244.

    Examples:
        >>> centring_penalty(torch.tensor([2.0]), torch.tensor([-1.0]))
        tensor([1.])
    """
    return (chosen + rejected) ** 2


def plackett_luce_loss(score: Tensor, rating: Tensor) -> Tensor:
    """Compute the negative log-likelihood of rankings ``[U, K]`` in the Plackett-Luce model.

    ``-log prod_k e^{r_(k)} / sum_{j >= k} e^{r_(j)}``, ``r_(1)`` the score of the best answer.
    ``score`` and ``rating`` are ``[U, K]``, the loss is ``[U]``. Equal ratings use Breslow's form:
    each of these answers is chosen out of all answers that are no better. The answers of the lowest
    rating add nothing. With two answers it is :func:`bradley_terry_loss`; if all ratings are equal
    it is 0.

    Source: Plackett 1975; Luce 1959; ties: Breslow 1974, Biometrics 30.

    Examples:
        >>> score, rating = torch.zeros(1, 3), torch.tensor([[1.0, 3.0, 2.0]])
        >>> round(float(plackett_luce_loss(score, rating).exp()), 4)  # 3! orders
        6.0
    """
    no_better = rating[:, None, :] <= rating[:, :, None]  # [U, k, j]: k is chosen out of these j
    # A finite stand-in for -inf, so that its gradient is never NaN.
    among = score[:, None, :].masked_fill(~no_better, torch.finfo(score.dtype).min)
    each = among.logsumexp(2) - score
    beats_another = (rating[:, None, :] < rating[:, :, None]).any(2)
    return torch.where(beats_another, each, torch.zeros_like(each)).sum(1)


def uniform_thresholds(levels: int) -> list[float]:
    """Return the thresholds ``theta_k = log(k / (K - k))``, k = 1 to K - 1, of K ``levels``.

    They are in log-odds, for :func:`ordinal_log_probs`. Under these thresholds a score of 0 makes
    all ``K`` categories equally likely.

    Examples:
        >>> [round(theta, 4) for theta in uniform_thresholds(4)]
        [-1.0986, 0.0, 1.0986]
    """
    return [math.log(k / (levels - k)) for k in range(1, levels)]


def ordinal_log_probs(score: Tensor, first: Tensor, gaps: Tensor) -> Tensor:
    """Compute log-probabilities ``[N, K]`` of ordered categories (cumulative logit).

    ``P(y <= k) = s(theta_k - r)``: a score ``r`` moves all cumulative log-odds alike. ``score`` is
    ``[N]``; ``first`` is ``theta_1``, a scalar; ``gaps`` ``[K - 2]`` are the differences of
    adjacent thresholds, above 0. The result, in nats, is finite even where ``P(y = k)`` rounds
    to 0.

    Source: McCullagh 1980, "Regression models for ordinal data", Journal of the Royal Statistical
    Society B 42(2), section 2.

    Examples:
        >>> level = ordinal_log_probs(torch.zeros(1), torch.tensor(-1.0986), torch.tensor([2.1972]))
        >>> level.exp()
        tensor([[0.2500, 0.5000, 0.2500]])
    """
    thresholds = first + F.pad(gaps.cumsum(0), (1, 0))
    below = thresholds - score[:, None]  # [N, K - 1]
    # The difference is s(b) - s(a) = s(b) s(-a) (1 - e^(a - b)).
    at_most, above = F.logsigmoid(below), F.logsigmoid(-below)
    inner = at_most[:, 1:] + above[:, :-1] + torch.log(-torch.expm1(-gaps))
    return torch.cat([at_most[:, :1], inner, above[:, -1:]], 1)


def multi_label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the binary cross-entropy, averaged over the known labels, a scalar in nats.

    ``logits`` and ``labels`` are ``[N, K]``. A label is 1, 0, a probability, or NaN where unknown;
    unknown labels have no gradient. 0 if all are unknown. ShapeError if the shapes differ;
    NumericalError if a label is neither NaN nor in [0, 1].

    Source: Masked binary cross-entropy with logits; Bishop 2006, Pattern Recognition and Machine
    Learning, eq. 4.90, for each label.

    Examples:
        >>> labels = torch.tensor([[1.0, torch.nan]])
        >>> multi_label_loss(torch.tensor([[0.0, 50.0]]), labels)  # log 2
        tensor(0.6931)
    """
    if logits.shape != labels.shape:
        raise ShapeError(
            f"'labels' has shape {list(labels.shape)}, but 'logits' has shape {list(logits.shape)}"
        )
    known = ~labels.isnan()
    # -1 is a common mark of an unknown label; without this check it would be learnt.
    wrong = known & ~((labels >= 0) & (labels <= 1))
    if bool(wrong.any()):
        raise NumericalError(
            f"'labels' holds {float(labels[wrong][0])}: a label is 0, 1 or between, NaN where "
            "unknown"
        )
    losses = F.binary_cross_entropy_with_logits(
        masked(logits, known), masked(labels, known).to(logits.dtype), reduction="none"
    )
    return masked(losses, known).sum() / known.sum().clamp(min=1)


Combination = Literal["mean", "median", "min", "mean_minus_std", "mean_minus_variance"]


def combine_scores(scores: Tensor, by: Combination, penalty: float) -> Tensor:
    """Combine the scores ``[M, B]`` of an ensemble of ``M`` reward models into ``[B]``.

    ``mean_minus_std`` is ``m - penalty s`` (a lower confidence bound); ``mean_minus_variance`` is
    ``m - penalty s^2`` (uncertainty-weighted optimisation). ``m`` and ``s`` are mean and population
    std over the members. Normalise members of different scales first.

    Source: Coste et al. 2023, arXiv:2310.02743, section 3 (mean, worst case, uncertainty-weighted).

    Examples:
        >>> members = torch.tensor([[1.0], [3.0]])
        >>> [combine_scores(members, by, 0.5).item() for by in ("mean", "min", "mean_minus_std")]
        [2.0, 1.0, 1.5]
    """
    if by == "min":
        return scores.amin(0)
    if by == "median":
        return scores.quantile(0.5, dim=0)
    mean = scores.mean(0)
    if by == "mean":
        return mean
    spread = scores.std(0, correction=0)
    return mean - penalty * (spread if by == "mean_minus_std" else spread**2)
