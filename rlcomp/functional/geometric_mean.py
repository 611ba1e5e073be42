"""Geometric-mean surrogate of a response (GMPO)."""

from __future__ import annotations

import torch
from torch import Tensor


def geometric_mean_surrogate(
    log_ratio: Tensor, advantage: Tensor, mask: Tensor, clip_low: float, clip_high: float
) -> Tensor:
    """Compute the GMPO surrogate from the geometric mean of a response's clipped token ratios.

    ``l_it = A_it sg[g_i] exp(x_it) / sg[exp(x_it)]`` with ``g_i = exp((1 / n_i) sum_t x_it)``,
    ``x_it = min(log r_it, eps_high)`` where ``A_it > 0`` and ``max(log r_it, -eps_low)`` elsewhere.

    The gradient in an unclipped token's log-prob is ``l_it``, or ``g_i A_it / n_i`` in the mean
    over a row. Where the advantages of the row are equal, this is the gradient of ``g_i A_i``.

    Args:
        log_ratio: log ratio of each token, shape ``[B, T]``, nats, 0 outside the mask.
        advantage: shape ``[B, T]``, in reward units, 0 outside the mask.
        mask: shape ``[B, T]``, bool.
        clip_low: eps_low, nats; at least 0.
        clip_high: eps_high, nats; at least 0.

    Returns:
        Shape ``[B, T]``, in reward units.

    Source:
        Zhao et al. 2025 (GMPO), arXiv:2507.20673. verl instead averages advantages that differ
        between tokens; the gradient of that is not the policy gradient.

    Examples:
        >>> mask, log_ratio = torch.ones(1, 2).bool(), torch.tensor([[0.9, -0.2]])
        >>> geometric_mean_surrogate(log_ratio, torch.ones(1, 2), mask, 0.4, 0.4)
        tensor([[1.1052, 1.1052]])
    """
    clipped = torch.where(advantage > 0, log_ratio.clamp(max=clip_high), log_ratio.clamp(-clip_low))
    length = mask.sum(1, keepdim=True).clamp(min=1)
    mean = clipped.detach().sum(1, keepdim=True) / length
    own = clipped - clipped.detach()  # value 0, with a gradient
    return advantage * (mean + own).exp()
