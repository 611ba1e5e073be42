"""Statistics of scores: calibration, ranks, gaps and intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rlcomp.errors import ConfigError, DataError, NumericalError, ShapeError
from rlcomp.functional.pass_at_k import bootstrap_interval, wilson_interval


class Bin(NamedTuple):
    """Predictions of similar confidence: mean probability, share of the events, number."""

    confidence: float
    accuracy: float
    number: int


def reliability(probability: Tensor, happened: Tensor, bins: int) -> list[Bin]:
    """Compute the reliability diagram in bins of equal mass, by rising probability.

    ``probability`` and ``happened`` are ``[N]``; ``happened`` is bool. With fewer than ``bins``
    predictions each of them has a bin of its own.

    Source: Niculescu-Mizil and Caruana 2005; equal mass: Nguyen and O'Connor 2015,
    arXiv:1508.05154.

    Examples:
        >>> reliability(torch.tensor([0.75, 0.5, 0.25]), torch.tensor([True, True, False]), 1)
        [Bin(confidence=0.5, accuracy=0.6666666666666666, number=3)]
    """
    order = probability.argsort(stable=True)
    parts = [part for part in order.tensor_split(min(bins, max(len(order), 1))) if len(part)]
    means = [(probability[part].double().mean(), happened[part].double().mean()) for part in parts]
    return [Bin(float(p), float(y), len(part)) for (p, y), part in zip(means, parts, strict=True)]


def expected_calibration_error(bins: list[Bin]) -> float:
    """Compute the ECE of at least one bin: ``sum_k n_k / N |accuracy_k - confidence_k|``.

    Source: Guo et al. 2017, arXiv:1706.04599, eq. 3.

    Examples:
        >>> expected_calibration_error([Bin(0.75, 1.0, 2), Bin(0.5, 0.25, 2)])
        0.25
    """
    total = sum(part.number for part in bins)
    return sum(part.number * abs(part.accuracy - part.confidence) for part in bins) / total


def roc_auc(score: Tensor, positive: Tensor) -> Tensor:
    """Compute the area under the ROC curve, ``P(s_+ > s_-) + P(s_+ = s_-) / 2`` over all pairs.

    ``score`` and ``positive`` (bool: the text has the label) are ``[N]``; the result is a float64
    scalar. NaN if all or none of the texts have the label.

    Source: Hanley and McNeil 1982, Radiology 143(1): the Wilcoxon statistic.

    Examples:
        >>> roc_auc(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([True, False, True]))
        tensor(0.5000, dtype=torch.float64)
    """
    # Compare instead of subtracting: the difference of two scores of -inf is NaN.
    with_label, without = score[positive][:, None], score[~positive][None, :]
    return ((with_label > without).double() + (with_label == without).double() / 2).mean()


def average_precision(score: Tensor, positive: Tensor) -> Tensor:
    """Compute the average precision: the mean precision down to each labelled text's score.

    ``AP = mean_{i in +} #{j in +: s_j >= s_i} / #{j: s_j >= s_i}``. Arguments and result are as in
    :func:`roc_auc`. A constant score has the share of labelled texts as its value. NaN if no text
    has the label.

    Source: Manning et al. 2008, Introduction to Information Retrieval, section 8.4.

    Examples:
        >>> average_precision(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([True, False, True]))
        tensor(0.8333, dtype=torch.float64)
    """
    above = score[None, :] >= score[positive][:, None]
    return ((above & positive).double().sum(1) / above.double().sum(1)).mean()


Array = npt.NDArray[np.float64]


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Compute Spearman's rank correlation, with mean ranks for ties; 0 if a vector is constant.

    ShapeError if the two are not vectors of one length; NumericalError if a number is not finite.

    Source: Spearman 1904, "The proof and measurement of association between two things".

    Examples:
        >>> rank_correlation([0, 0.5, 1], [0.1, 0.2, 9.0])
        1.0
    """
    values = [np.asarray(vector, dtype=np.float64) for vector in (first, second)]
    if values[0].ndim != 1 or values[0].shape != values[1].shape:
        raise ShapeError(
            f"rank_correlation: the shapes are {list(values[0].shape)} and "
            f"{list(values[1].shape)}: give two vectors of one length"
        )
    if not np.isfinite(values).all():
        raise NumericalError("rank_correlation: a number is not finite: leave such pairs out")
    x, y = (_centred_ranks(vector) for vector in values)
    size = np.sqrt((x @ x) * (y @ y))
    return float(np.clip(x @ y / size, -1, 1)) if size > 0 else 0.0


def _centred_ranks(values: Array) -> Array:
    """Return the ranks minus their mean, ``[N]``: half of (lower values minus higher values)."""
    lead: Array = np.sign(values[:, None] - values).sum(1)
    return lead / 2


class Estimate(NamedTuple):
    """Mean, and variance of this mean."""

    mean: float
    variance: float


def clustered_mean(values: Tensor, cluster: Tensor) -> Estimate:
    """Compute the mean over clusters of their means, and its variance.

    ``m = 1/P sum_p m_p``, ``v = sum_p (m_p - m)^2 / (P (P - 1))``. ``values`` and ``cluster``, the
    prompt of each value, are ``[N]``. Answers to one prompt are not independent; prompts are
    independent. ConfigError if there are fewer than two clusters.

    Source: Miller 2024, arXiv:2411.00640: standard errors clustered by question.

    Examples:
        >>> clustered_mean(torch.tensor([1.0, 0.0, 1.0]), torch.tensor([7, 7, 3]))
        Estimate(mean=0.75, variance=0.0625)
    """
    index = torch.unique(cluster, return_inverse=True)[1]
    count = index.bincount().double()
    if len(count) < 2:
        raise ConfigError(f"a variance over {len(count)} prompts: must be at least 2")
    means = torch.zeros_like(count).index_add(0, index, values.double()) / count
    return Estimate(float(means.mean()), float(means.var() / len(count)))


def pool(estimates: Iterable[Estimate]) -> Estimate:
    """Pool n >= 1 independent estimates: ``m = 1/n sum_i m_i``, ``v = 1/n^2 sum_i v_i``."""
    means, variances = zip(*estimates, strict=True)
    return Estimate(sum(means) / len(means), sum(variances) / len(variances) ** 2)


def z_score(now: Estimate, before: Estimate) -> float:
    """Compute ``(m_now - m_before) / sqrt(v_now + v_before)`` of independent estimates.

    0 for equal means at any variance; infinite where the means differ and have no variance.

    Source: Welch 1947, "The generalization of Student's problem", Biometrika 34.

    Examples:
        >>> z_score(Estimate(1.0, 0.03), Estimate(0.4, 0.06))
        2.0
    """
    difference, variance = now.mean - before.mean, now.variance + before.variance
    if difference == 0 or variance > 0:
        return difference / math.sqrt(variance) if difference else 0.0
    return math.copysign(math.inf, difference)


# Values closer than this are equal, since 2/3 - 1/3 is 1/3 only up to rounding.
_EQUAL = 1e-12


def share_interval(values: Tensor, level: float, generator: torch.Generator) -> tuple[float, float]:
    """Compute the interval of the mean over problems of shares in [0, 1].

    ``values`` are ``[P]``; ``level`` is the coverage, such as 0.95. Wilson's interval if every
    value is 0 or 1, otherwise the bootstrap's.

    The bootstrap's interval of equal values has width 0, even if they are few. So for equal values
    other than 0 and 1 the interval is the value plus or minus ``h``, within [0, 1]. ``h`` is
    Wilson's upper end for 0 of ``P``: it bounds the share of problems with another value.

    The generator is on the CPU. ConfigError without values, or for a level outside (0, 1).

    Source: Efron 1979, Annals of Statistics 7(1); Wilson 1927, Journal of the American Statistical
    Association 22(158).

    Examples:
        >>> low, high = share_interval(torch.full((4,), 0.5), 0.95, torch.Generator())
        >>> round(low, 3), round(high, 3)
        (0.01, 0.99)
    """
    if bool(((values == 0) | (values == 1)).all()) and len(values):
        return wilson_interval(int(values.sum()), len(values), level)
    return _interval(values, (0.0, 1.0), level, generator)


def difference_interval(
    values: Tensor, level: float, generator: torch.Generator
) -> tuple[float, float]:
    """Compute the interval of the mean over problems of paired differences of shares, in [-1, 1].

    The bootstrap's interval. If all values are equal, it is the value plus or minus the ``h`` of
    :func:`share_interval`, within [-1, 1]. Arguments and errors are as there.

    Examples:
        >>> low, high = difference_interval(torch.zeros(4), 0.95, torch.Generator())
        >>> round(low, 3), round(high, 3)
        (-0.49, 0.49)
    """
    return _interval(values, (-1.0, 1.0), level, generator)


def _interval(
    values: Tensor, bounds: tuple[float, float], level: float, generator: torch.Generator
) -> tuple[float, float]:
    if not len(values) or float(values.max() - values.min()) > _EQUAL:
        return bootstrap_interval(values, level, generator)
    _, half_width = wilson_interval(0, len(values), level)
    value = float(values[0])
    return max(value - half_width, bounds[0]), min(value + half_width, bounds[1])


# Largest number of Newton steps; they end once no coefficient moves by 1e-10.
_STEPS = 50
# Beyond these log-odds the columns count as determining an outcome with certainty.
_MAX_LOG_ODDS = 30.0


class LogisticFit(NamedTuple):
    """Coefficients ``[K]``, log-odds per unit of a column, and their standard errors."""

    coefficients: Tensor
    errors: Tensor


def logistic_regression(features: Tensor, outcome: Tensor, cluster: Tensor) -> LogisticFit:
    """Fit ``P(y = 1) = s(x b)`` by Newton's method, without a penalty.

    ``s`` is the logistic function. ``features`` ``x`` are ``[N, K]``; a column of ones is the
    intercept. ``outcome`` ``y`` and ``cluster`` are ``[N]``. Standard errors are clustered,
    ``V = H^-1 (sum_c g_c g_c^T) H^-1`` with ``H = sum p (1 - p) x x^T`` and ``g_c`` the sum of
    ``(y - p) x`` over the rows of a cluster: valid if rows of a cluster depend on one another, and
    if outcomes are shares in [0, 1].

    DataError if there is no finite maximum: a column follows from others, or some columns determine
    the outcome.

    Source: Liang & Zeger 1986, Biometrika 73; Papke & Wooldridge 1996 for shares.

    Examples:
        >>> ones, rows = torch.ones(4, 1), torch.arange(4)
        >>> logistic_regression(ones, torch.tensor([1.0, 1.0, 1.0, 0.0]), rows)[0]  # log(3)
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
                "logistic regression: the columns determine the outcome with certainty, so that no "
                "coefficient is finite: give more rows, or rows with less certain outcomes"
            )
    p = torch.sigmoid(x @ b)
    inverse = torch.linalg.inv(_information(x, p))
    groups = torch.unique(cluster, return_inverse=True)[1]
    scores = torch.zeros(int(groups.max()) + 1, x.shape[1], dtype=torch.float64)
    scores.index_add_(0, groups, (y - p)[:, None] * x)
    return LogisticFit(b, (inverse @ scores.T @ scores @ inverse).diagonal().clamp(min=0).sqrt())


def _information(x: Tensor, p: Tensor) -> Tensor:
    return (x * (p * (1 - p))[:, None]).T @ x


def _newton(x: Tensor, y: Tensor, b: Tensor) -> Tensor:
    p = torch.sigmoid(x @ b)
    information = _information(x, p)
    if float(torch.linalg.cond(information)) > 1e12:  # singular up to rounding
        raise DataError(
            "logistic regression: a column follows from others (or is the same in all rows): their "
            "coefficients are not unique; leave the column out"
        )
    step: Tensor = torch.linalg.solve(information, x.T @ (y - p))
    return step
