"""GRPO-LEAD's difficulty weights."""

from __future__ import annotations

import torch
from torch import Tensor


def difficulty_weight(
    accuracy: Tensor, low: float, high: float, midpoint: float, steepness: float
) -> Tensor:
    """Compute GRPO-LEAD's difficulty weight: logistic in the group accuracy ``q``.

    ``w(q) = low + (high - low) / (1 + exp(steepness (q - midpoint)))``

    Args:
        accuracy: q, any shape, share of right answers in [0, 1].
        low: a, the limit for easy prompts.
        high: b, the limit for hard prompts.
        midpoint: q0, accuracy at which the weight is halfway.
        steepness: k, how sharp the fall is there, per unit of accuracy.

    Returns:
        The accuracy's shape, dimensionless, between ``low`` and ``high``.

    Source:
        Zhang and Zuo 2025 (GRPO-LEAD), arXiv:2504.09696, section 3.3.

    Examples:
        >>> difficulty_weight(torch.tensor([0.0, 0.75, 1.0]), 0.4, 1.5, 0.75, 10.0)
        tensor([1.4994, 0.9500, 0.4834])
    """
    return low + (high - low) * torch.sigmoid(steepness * (midpoint - accuracy))


def difficulty_weighted(
    advantage: Tensor,
    accuracy: Tensor,
    low: float,
    high: float,
    midpoint: float,
    steepness: float,
) -> Tensor:
    """Reweight advantages by difficulty (GRPO-LEAD).

    ``A w(q)`` where ``A > 0``, ``A w(1 - q)`` elsewhere; ``w`` is :func:`difficulty_weight`.

    Args:
        advantage: shape ``[B, T]``.
        accuracy: q, shape ``[B]``, share of right answers in the row's group.
        low: a.
        high: b.
        midpoint: q0.
        steepness: k.

    Returns:
        Shape ``[B, T]``, in the advantage's unit.

    Source:
        Zhang and Zuo 2025 (GRPO-LEAD), arXiv:2504.09696, section 3.3.

    Examples:
        >>> advantage = torch.tensor([[2.0, -2.0]])
        >>> difficulty_weighted(advantage, torch.tensor([0.75]), 0.4, 1.5, 0.75, 10.0)
        tensor([[ 1.9000, -2.9853]])
    """
    share = accuracy.to(advantage.dtype)[:, None]
    rewarded = difficulty_weight(share, low, high, midpoint, steepness)
    blamed = difficulty_weight(1 - share, low, high, midpoint, steepness)
    return advantage * torch.where(advantage > 0, rewarded, blamed)
