"""How far a ratio has moved away from 1, and the penalty that answers it."""

from __future__ import annotations

from torch import Tensor

# Nats per token: below it is rounding, not a step.
AT_THE_OLD_POLICY = 1e-8


def old_policy_kl(ratio: Tensor) -> Tensor:
    """KL(pi_old || pi) per token, from samples of the old policy: ``ratio - 1 - log ratio``.

    Its expectation under the old policy is the KL, and so is the expectation of its gradient;
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
    """``|log ratio|``, whose gradient in the log-prob is its sign.

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
    return ratio.log().abs()


def doubled_or_halved(coefficient: Tensor, kl: float, target: float) -> Tensor:
    """A penalty's coefficient after a step: doubled above 1.5 targets, halved below 1 / 1.5.

    Args:
        coefficient: shape ``[]``, dimensionless.
        kl: nats per token. Where it is 0 but for rounding, the step began at the old policy and
            says nothing about the coefficient, which stays.
        target: nats per token, positive.

    Returns:
        Shape ``[]``.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, section 4.

    Examples:
        >>> import torch
        >>> doubled_or_halved(torch.tensor(1.0), 0.02, 0.01)
        tensor(2.)
    """
    if kl > 1.5 * target:
        return coefficient * 2
    if AT_THE_OLD_POLICY < kl < target / 1.5:
        return coefficient / 2
    return coefficient
