"""Combination of the scores of several reward models into one reward."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Combination = Literal["mean", "median", "min", "mean_minus_std", "mean_minus_variance"]


def combine(scores: Tensor, by: Combination, penalty: float) -> Tensor:
    """Combine the members of an ensemble.

    ``mean_minus_std`` is ``m - lambda s`` (a lower confidence bound); ``mean_minus_variance`` is
    ``m - lambda s^2`` (uncertainty-weighted optimisation). ``m`` and ``s`` are over the members,
    without Bessel's correction: ``s`` is 0 for one member. Normalise members of different scales
    first.

    Args:
        scores: shape ``[M, B]``.
        by: the combination.
        penalty: lambda; the other combinations do not use it.

    Returns:
        Shape ``[B]``.

    Source:
        Coste et al. 2023, arXiv:2310.02743, section 3 (mean, worst case, uncertainty-weighted).

    Examples:
        >>> import torch
        >>> members = torch.tensor([[1.0], [3.0]])
        >>> [combine(members, by, 0.5).item() for by in ("mean", "min", "mean_minus_std")]
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
