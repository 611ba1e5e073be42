"""Prioritised experience replay: probabilities of the rows, and weights of the drawn ones."""

from __future__ import annotations

import torch
from torch import Tensor


def priority_probability(priority: Tensor, alpha: float) -> Tensor:
    """Compute ``P(i) = p_i^alpha / sum_j p_j^alpha``.

    Args:
        priority: ``p``, > 0, shape ``[R]``.
        alpha: 0 is uniform; 1 is proportional.

    Returns:
        Shape ``[R]``, float64, sums to 1.

    Source:
        Schaul et al. 2016, arXiv:1511.05952, eq. 1.

    Examples:
        >>> priority_probability(torch.tensor([1.0, 3.0]), 1.0)
        tensor([0.2500, 0.7500], dtype=torch.float64)
    """
    powered = priority.double() ** alpha
    return powered / powered.sum()


def importance_weight(probability: Tensor, rows: int, beta: float) -> Tensor:
    """Compute ``w_i = (R P(i))^-beta`` over the greatest of these weights.

    Args:
        probability: probabilities of the drawn rows, shape ``[N]``.
        rows: ``R``, number of rows to draw from.
        beta: 1 corrects the priorities fully; 0 not at all.

    Returns:
        Shape ``[N]``, float32, at most 1.

    Source:
        Schaul et al. 2016, arXiv:1511.05952, section 3.4.

    Examples:
        >>> importance_weight(torch.tensor([0.25, 0.75]), 2, 1.0)
        tensor([1.0000, 0.3333])
    """
    weight = (rows * probability.double()) ** -beta
    return (weight / weight.amax()).float()


def draw_by_probability(probability: Tensor, draws: Tensor) -> Tensor:
    """Draw rows by inversion: the first with a cumulative probability above the draw.

    Args:
        probability: shape ``[R]``, sums to 1.
        draws: in [0, 1), shape ``[N]``.

    Returns:
        Shape ``[N]``, int64.

    Examples:
        >>> draw_by_probability(torch.tensor([0.25, 0.75]), torch.tensor([0.2, 0.25, 0.9]))
        tensor([0, 1, 1])
    """
    total = probability.double().cumsum(0)
    # A double below 1 times the total is below the total, after rounding too.
    return torch.searchsorted(total, draws.double() * total[-1], right=True)
