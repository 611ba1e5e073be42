"""Gamma-shaped reweighting of an importance ratio (VESPO)."""

from __future__ import annotations

import torch
from torch import Tensor


def gamma_weight(
    ratio: Tensor,
    advantage: Tensor,
    shape: tuple[float, float],
    rate: tuple[float, float],
) -> Tensor:
    """Compute VESPO's weight of an importance ratio: ``phi(r) = r^k exp(lambda (1 - r))``.

    It is 1 at ratio 1, largest at ``k / lambda``, and near 0 for ratios near 0 and for large ones.

    Args:
        ratio: shape ``[B, T]``, positive.
        advantage: shape ``[B, T]``; its sign selects shape and rate.
        shape: k for advantages of at least 0, and k for negative ones.
        rate: lambda for advantages of at least 0, and lambda for negative ones.

    Returns:
        Shape ``[B, T]``, dimensionless, detached.

    Source:
        Shen et al. 2026 (VESPO), arXiv:2602.10693; scaled to ``phi(1) = 1`` as in TRL.

    Examples:
        >>> ratio, advantage = torch.tensor([[1.0, 2.0, 2.0]]), torch.tensor([[1.0, 1.0, -1.0]])
        >>> gamma_weight(ratio, advantage, (2.0, 3.0), (3.0, 2.0))
        tensor([[1.0000, 0.1991, 1.0827]])
    """
    ratio, positive = ratio.detach(), advantage >= 0
    k = torch.where(positive, ratio.new_tensor(shape[0]), ratio.new_tensor(shape[1]))
    decay = torch.where(positive, ratio.new_tensor(rate[0]), ratio.new_tensor(rate[1]))
    return (k * ratio.log() + decay * (1 - ratio)).exp()
