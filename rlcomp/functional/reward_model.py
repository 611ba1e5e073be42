"""Losses of reward models."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.errors import DataError, NumericalError, ShapeError
from rlcomp.functional.reduction import masked

_STEPS = 50
# Beyond these log-odds the columns count as determining an outcome with certainty.
_MAX_LOG_ODDS = 30.0


class Fit(NamedTuple):
    """A fitted logistic regression.

    Attributes:
        coefficients: log-odds per unit of each column, shape ``[K]``.
        errors: their standard errors, shape ``[K]``.
    """

    coefficients: Tensor
    errors: Tensor


def logistic(features: Tensor, outcome: Tensor, cluster: Tensor) -> Fit:
    """Fit ``P(y = 1) = s(x b)`` by Newton's method, without a penalty.

    ``V = H^-1 (sum_c g_c g_c^T) H^-1`` with ``H = sum p (1 - p) x x^T`` and ``g_c`` the sum of ``(y
    - p) x`` over the rows of a cluster. The errors are valid if rows of a cluster depend on one
    another, and if outcomes are shares in [0, 1].

    Args:
        features: shape ``[N, K]``; a column of ones is the intercept.
        outcome: shape ``[N]``, in [0, 1].
        cluster: shape ``[N]``, int64: rows with one number belong together.

    Raises:
        DataError: there is no finite maximum: a column follows from others, or some columns
            determine the outcome.

    Source:
        Liang & Zeger 1986, Biometrika 73; Papke & Wooldridge 1996 for shares.

    Examples:
        >>> ones, rows = torch.ones(4, 1), torch.arange(4)
        >>> logistic(ones, torch.tensor([1.0, 1.0, 1.0, 0.0]), rows)[0]  # log(3)
        tensor([1.0986], dtype=torch.float64)
    """
    x, y = features.double(), outcome.double()
    b = torch.zeros(x.shape[1], dtype=torch.float64)
    for _ in range(_STEPS):
        step = _newton(x, y, b)
        b = b + step
        if float(step.abs().max()) < 1e-10:
            break
        if float((x @ b).abs().max()) > _MAX_LOG_ODDS:
            raise DataError(
                "logistic: the columns determine the outcome with certainty, so that no "
                "coefficient is finite: give more rows, or rows with less certain outcomes"
            )
    p = torch.sigmoid(x @ b)
    inverse = torch.linalg.inv(_information(x, p))
    groups = torch.unique(cluster, return_inverse=True)[1]
    scores = torch.zeros(int(groups.max()) + 1, x.shape[1], dtype=torch.float64)
    scores.index_add_(0, groups, (y - p)[:, None] * x)
    return Fit(b, (inverse @ scores.T @ scores @ inverse).diagonal().clamp(min=0).sqrt())


def _information(x: Tensor, p: Tensor) -> Tensor:
    return (x * (p * (1 - p))[:, None]).T @ x


def _newton(x: Tensor, y: Tensor, b: Tensor) -> Tensor:
    p = torch.sigmoid(x @ b)
    information = _information(x, p)
    if float(torch.linalg.cond(information)) > 1e12:
        raise DataError(
            "logistic: a column follows from others (or is the same in all rows), so that their "
            "coefficients are not unique: leave the column out"
        )
    step: Tensor = torch.linalg.solve(information, x.T @ (y - p))
    return step


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


def uniform_thresholds(levels: int) -> list[float]:
    """Return thresholds under which a score of 0 makes all categories equally likely.

    ``theta_k = log(k / (K - k))``, k = 1 to K - 1.

    Args:
        levels: K, at least 2.

    Examples:
        >>> [round(theta, 4) for theta in uniform_thresholds(4)]
        [-1.0986, 0.0, 1.0986]
    """
    return [math.log(k / (levels - k)) for k in range(1, levels)]


def ordinal_log_probs(score: Tensor, first: Tensor, gaps: Tensor) -> Tensor:
    """Compute log-probabilities of ordered categories (cumulative logit, proportional odds).

    ``P(y <= k) = s(theta_k - r)``, so that ``P(y = k) = s(theta_k - r) - s(theta_(k-1) - r)``:
    a score moves all cumulative log-odds alike.

    Args:
        score: ``r``, shape ``[N]``.
        first: ``theta_1``, a scalar.
        gaps: ``theta_(k+1) - theta_k``, all above 0, shape ``[K - 2]``.

    Returns:
        Shape ``[N, K]``, nats; finite even where the difference of the two is 0 in floating point.

    Source:
        McCullagh 1980, "Regression models for ordinal data", Journal of the Royal Statistical
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
    """Compute the binary cross-entropy, averaged over the known labels.

    Args:
        logits: log-odds of ``K`` labels of ``N`` texts, shape ``[N, K]``.
        labels: 1, 0, or NaN where unknown, shape ``[N, K]``; a number between 0 and 1 is a
            probability.

    Returns:
        Shape ``[]``, in nats; 0 if all labels are unknown. Unknown labels have no gradient.

    Raises:
        ShapeError: the two tensors differ in shape.
        NumericalError: a label is neither NaN nor in [0, 1].

    Source:
        Masked binary cross-entropy with logits; Bishop 2006, Pattern Recognition and Machine
        Learning, eq. 4.90, for each label.

    Examples:
        >>> import torch
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
