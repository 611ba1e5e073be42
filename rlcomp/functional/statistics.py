"""Statistics of scores: calibration, ranks, gaps and intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rlcomp.errors import ConfigError, NumericalError, ShapeError
from rlcomp.functional.pass_at_k import bootstrap_interval, wilson_interval


class Bin(NamedTuple):
    """A group of predictions of similar confidence.

    Attributes:
        confidence: mean predicted probability.
        accuracy: share of the events that happened.
        number: predictions in the bin.
    """

    confidence: float
    accuracy: float
    number: int


def reliability(probability: Tensor, happened: Tensor, bins: int) -> list[Bin]:
    """Compute the reliability diagram in bins of equal mass, by rising probability.

    Args:
        probability: shape ``[N]``, in [0, 1].
        happened: shape ``[N]``, bool.
        bins: number of bins; fewer where there are fewer predictions.

    Source:
        Niculescu-Mizil and Caruana 2005; equal mass: Nguyen and O'Connor 2015, arXiv:1508.05154.

    Examples:
        >>> import torch
        >>> reliability(torch.tensor([0.75, 0.5, 0.25]), torch.tensor([True, True, False]), 1)
        [Bin(confidence=0.5, accuracy=0.6666666666666666, number=3)]
    """
    order = probability.argsort(stable=True)
    parts = [part for part in order.tensor_split(min(bins, max(len(order), 1))) if len(part)]
    return [
        Bin(
            float(probability[part].double().mean()),
            float(happened[part].double().mean()),
            len(part),
        )
        for part in parts
    ]


def expected_calibration_error(bins: list[Bin]) -> float:
    """Compute the ECE: ``sum_k n_k / N |accuracy_k - confidence_k|``, from 0 to 1.

    Args:
        bins: at least one bin.

    Source:
        Guo et al. 2017, arXiv:1706.04599, eq. 3.

    Examples:
        >>> expected_calibration_error([Bin(0.75, 1.0, 2), Bin(0.5, 0.25, 2)])
        0.25
    """
    total = sum(part.number for part in bins)
    return sum(part.number * abs(part.accuracy - part.confidence) for part in bins) / total


def roc_auc(score: Tensor, positive: Tensor) -> Tensor:
    """Compute the area under the ROC curve, ``P(s_+ > s_-) + P(s_+ = s_-) / 2`` over all pairs.

    Args:
        score: shape ``[N]``.
        positive: True for texts with the label, bool, shape ``[N]``.

    Returns:
        Shape ``[]``, float64; NaN if all or none of the texts have the label.

    Source:
        Hanley and McNeil 1982, Radiology 143(1): the Wilcoxon statistic.

    Examples:
        >>> import torch
        >>> roc_auc(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([True, False, True]))
        tensor(0.5000, dtype=torch.float64)
    """
    # Compare instead of subtracting: the difference of two scores of -inf is NaN.
    with_label, without = score[positive][:, None], score[~positive][None, :]
    return ((with_label > without).double() + (with_label == without).double() / 2).mean()


def average_precision(score: Tensor, positive: Tensor) -> Tensor:
    """Compute the average precision: the mean precision down to each labelled text's score.

    ``AP = mean_{i in +} #{j in +: s_j >= s_i} / #{j: s_j >= s_i}``. An uninformative score has the
    share of labelled texts as its value.

    Args:
        score: shape ``[N]``.
        positive: True for texts with the label, bool, shape ``[N]``.

    Returns:
        Shape ``[]``, float64; NaN if no text has the label.

    Source:
        Manning et al. 2008, Introduction to Information Retrieval, section 8.4.

    Examples:
        >>> import torch
        >>> average_precision(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([True, False, True]))
        tensor(0.8333, dtype=torch.float64)
    """
    above = score[None, :] >= score[positive][:, None]
    return ((above & positive).double().sum(1) / above.double().sum(1)).mean()


Array = npt.NDArray[np.float64]


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Compute Spearman's rank correlation, with mean ranks for ties.

    Args:
        first: shape ``[n]``, finite.
        second: shape ``[n]``, finite.

    Returns:
        In [-1, 1], dimensionless; 1 if one always rises with the other; 0 if one of them is
        constant.

    Raises:
        ShapeError: the two are not vectors of one length.
        NumericalError: a number is not finite.

    Source:
        Spearman 1904, "The proof and measurement of association between two things".

    Examples:
        >>> rank_correlation([0, 0.5, 1], [0.1, 0.2, 9.0])
        1.0
    """
    values = [np.asarray(one, dtype=np.float64) for one in (first, second)]
    if values[0].ndim != 1 or values[0].shape != values[1].shape:
        raise ShapeError(
            f"rank_correlation: the shapes are {list(values[0].shape)} and "
            f"{list(values[1].shape)}: give two vectors of one length"
        )
    if not np.isfinite(values).all():
        raise NumericalError("rank_correlation: a number is not finite: leave such pairs out")
    one, other = (_centred_ranks(vector) for vector in values)
    size = np.sqrt((one @ one) * (other @ other))
    return float(np.clip(one @ other / size, -1, 1)) if size > 0 else 0.0


def _centred_ranks(values: Array) -> Array:
    above: Array = np.sign(values[:, None] - values).sum(1)
    return above / 2


class Estimate(NamedTuple):
    """Mean, and variance of this mean."""

    mean: float
    variance: float


def clustered_mean(values: Tensor, cluster: Tensor) -> Estimate:
    """Compute the mean over clusters of their means, and its variance.

    ``m = 1/P sum_p m_p``, ``v = sum_p (m_p - m)^2 / (P (P - 1))``. Answers to one prompt are not
    independent; prompts are.

    Args:
        values: shape ``[B]``, any unit.
        cluster: the cluster of each value, ``P`` in all, int64, shape ``[B]``.

    Raises:
        ConfigError: there are fewer than two clusters.

    Source:
        Miller 2024, arXiv:2411.00640: standard errors clustered by question.

    Examples:
        >>> clustered_mean(torch.tensor([1.0, 0.0, 1.0]), torch.tensor([7, 7, 3]))
        Estimate(mean=0.75, variance=0.0625)
    """
    place = torch.unique(cluster, return_inverse=True)[1]
    count = place.bincount().double()
    if len(count) < 2:
        raise ConfigError(f"a variance over {len(count)} prompts: must be at least 2")
    means = torch.zeros_like(count).index_add(0, place, values.double()) / count
    return Estimate(float(means.mean()), float(means.var() / len(count)))


def pooled(estimates: Iterable[Estimate]) -> Estimate:
    """Pool n independent estimates: ``m = 1/n sum_i m_i``, ``v = 1/n^2 sum_i v_i``.

    Args:
        estimates: at least one, of numbers and not of tensors.

    Source:
        Variance of a mean of independent variables (Bienaymé).
    """
    means, variances = zip(*estimates, strict=True)
    return Estimate(sum(means) / len(means), sum(variances) / len(variances) ** 2)


def z_score(now: Estimate, before: Estimate) -> float:
    """Compute ``(m_now - m_before) / sqrt(v_now + v_before)``.

    0 for equal means at any variance; infinite where the means differ and have no variance.

    Args:
        now: a mean with its variance.
        before: another estimate, independent of ``now``.

    Source:
        Welch 1947, "The generalization of Student's problem", Biometrika 34; for clustered means.

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

    Wilson's interval if every value is 0 or 1, otherwise the bootstrap's. If all values are equal,
    a bootstrap has no width, at any number of problems. The interval then bounds the share of other
    values that ``n`` problems can miss: the value plus or minus Wilson's upper end for 0 of ``n``,
    within [0, 1].

    Args:
        values: shape ``[P]``, at least one.
        level: coverage, in (0, 1), such as 0.95.
        generator: draws the problems; on the CPU.

    Source:
        Efron 1979, Annals of Statistics 7(1); Wilson 1927, Journal of the American Statistical
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

    The bootstrap's interval; for equal values as in :func:`share_interval`.

    Args:
        values: shape ``[P]``, at least one.
        level: coverage, in (0, 1), such as 0.95.
        generator: draws the problems; on the CPU.

    Source:
        As in :func:`share_interval`.

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
    _, width = wilson_interval(0, len(values), level)
    value = float(values[0])
    return max(value - width, bounds[0]), min(value + width, bounds[1])
