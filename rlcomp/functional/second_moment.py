"""Outliers of the log ratio's second moment (M2PO)."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.functional.covariance import highest


def second_moment_outliers(log_ratio: Tensor, eligible: Tensor, bound: float) -> Tensor:
    """Return the fewest tokens to drop for a mean ``(log r)^2`` of at most ``bound`` (M2PO).

    The largest are dropped first. Values within 1e-5 of the last dropped one are dropped too, so
    that the order of rows does not matter.

    Args:
        log_ratio: shape ``[B, T]``, nats; of the whole optimiser step.
        eligible: tokens that count and may be dropped, shape ``[B, T]``, bool.
        bound: largest mean, nats squared.

    Returns:
        Tokens to drop, shape ``[B, T]``, bool.

    Source:
        Zheng et al. 2025 (M2PO), arXiv:2510.01161, algorithm 1.

    Examples:
        >>> second_moment_outliers(torch.tensor([[0.1, 1.0, 0.2]]), torch.ones(1, 3).bool(), 0.05)
        tensor([[False,  True, False]])
    """
    square = log_ratio.detach().square()
    ascending = square[eligible].double().sort().values
    number = torch.arange(1, len(ascending) + 1, device=ascending.device)
    # The mean of the n least rises with n: drop as many as there are means above the bound.
    count = int((ascending.cumsum(0) / number > bound).sum())
    return highest(square, eligible, count) if count else torch.zeros_like(eligible)
