"""Prioritised experience replay: which rows are drawn, and what they weigh."""

from __future__ import annotations

import torch
from torch import Tensor


def priority_probability(priority: Tensor, alpha: float) -> Tensor:
    """``P(i) = p_i^alpha / sum_j p_j^alpha``.

    Args:
        priority: ``p``, > 0, shape ``[R]``.
        alpha: 0: uniform; 1: in proportion.

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
    """``w_i = (R P(i))^-beta``, over the greatest of these rows.

    Args:
        probability: of the rows that were drawn, shape ``[N]``.
        rows: ``R``, how many there are to draw from.
        beta: 1 takes back all that the priorities add; 0 nothing.

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
    """Rows by inversion: the first whose cumulative probability is above the draw.

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
    # A double below 1 times the total is below the total, rounded as well.
    return torch.searchsorted(total, draws.double() * total[-1], right=True)
