"""Clustered gap test for reward hacking: rise of the proxy reward above the true one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from rlcomp.errors import ConfigError


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
