"""Distances of a ratio from 1: k3 KL to the old policy, absolute log ratio."""

from __future__ import annotations

import torch
from torch import Tensor

# Nats a token. In float32 two passes over the same tokens agree to about 1e-7: values nearer than
# this bound are equal.
ROUNDING = 1e-5


def old_policy_kl(ratio: Tensor) -> Tensor:
    """Estimate KL(pi_old || pi) per token by k3 on samples of pi_old: ``r - 1 - log r``.

    The expectation under the old policy is the KL, and the expected gradient is the KL's gradient.
    ``-log ratio`` has the same two expectations, but is not 0 in value and gradient at ratio 1.

    Args:
        ratio: pi / pi_old, shape ``[B, T]``, positive.

    Returns:
        Shape ``[B, T]``, nats, never negative.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 8; estimator k3 of Schulman 2020, "Approximating
        KL divergence".

    Examples:
        >>> import torch
        >>> old_policy_kl(torch.tensor([[1.0, 2.0]]))
        tensor([[0.0000, 0.3069]])
    """
    return (ratio - 1) - ratio.log()


def log_distance(ratio: Tensor) -> Tensor:
    """Compute the absolute log ratio (KL-Cov): ``|log r|``, with gradient ``sign(log r)``.

    Within the rounding of a log-prob (1e-5) both the value and the gradient are 0: at the old
    policy the sign of the difference is noise.

    Args:
        ratio: pi / pi_old, shape ``[B, T]``, positive.

    Returns:
        Shape ``[B, T]``, nats.

    Source:
        Cui et al. 2025 (KL-Cov), arXiv:2505.22617, section 4.2, as in its code.

    Examples:
        >>> import torch
        >>> log_distance(torch.tensor([[1.0, 0.5]]))
        tensor([[0.0000, 0.6931]])
    """
    distance = ratio.log().abs()
    return torch.where(distance > ROUNDING, distance, torch.zeros_like(distance))
