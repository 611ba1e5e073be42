"""Surrogates of the policy objective, per token.

``ratio`` is pi / pi_old, dimensionless. ``advantage`` and surrogates are in reward units
(:func:`weighted_log_probs`: reward units times nats). Shapes are ``[B, T]``. ``sg`` stops the
gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import ShapeError


def neutral_outside(ratio: Tensor, advantage: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return ratio and advantage, with ratio 1 and advantage 0 outside the mask.

    Call it before multiplying the two, so that NaN outside the mask cannot reach the gradient.

    Examples:
        >>> ratio, advantage = torch.tensor([[2.0, torch.nan]]), torch.tensor([[3.0, torch.inf]])
        >>> neutral_outside(ratio, advantage, torch.tensor([[True, False]]))
        (tensor([[2., 1.]]), tensor([[3., 0.]]))
    """
    mask = mask.bool()
    return (
        torch.where(mask, ratio, torch.ones_like(ratio)),
        torch.where(mask, advantage, torch.zeros_like(advantage)),
    )


def clipped_surrogate(
    ratio: Tensor, advantage: Tensor, clip_low: float, clip_high: float
) -> Tensor:
    """Compute PPO's surrogate, ``min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)``.

    ``clip_low`` is in [0, 1), ``clip_high`` >= 0. ShapeError if the two tensors differ in shape.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7; asymmetric bounds arXiv:2503.14476,
    eq. 10.

    Examples:
        >>> clipped_surrogate(torch.tensor([[2.0]]), torch.tensor([[1.0]]), 0.2, 0.2)
        tensor([[1.2000]])
    """
    # In the ratio's own dtype: a float32 bound is off by 1e-8 among float64 ratios.
    floor, ceiling = ratio.new_tensor(1 - clip_low), ratio.new_tensor(1 + clip_high)
    return bounded_surrogate(ratio, advantage, floor, ceiling)


def bounded_surrogate(ratio: Tensor, advantage: Tensor, floor: Tensor, ceiling: Tensor) -> Tensor:
    """Compute ``min(r A, clip(r, floor, ceiling) A)``.

    The bounds have shape ``[]`` or ``[B, 1]``, with ``floor <= 1 <= ceiling``. ShapeError if ratio
    and advantage differ in shape.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7.

    Examples:
        >>> floor, ceiling = torch.tensor(0.6), torch.tensor(1.2)
        >>> bounded_surrogate(torch.tensor([[0.3]]), torch.tensor([[-1.0]]), floor, ceiling)
        tensor([[-0.6000]])
    """
    if ratio.shape != advantage.shape:
        raise ShapeError(
            f"'ratio' has shape {list(ratio.shape)}, but 'advantage' has {list(advantage.shape)}"
        )
    clipped = ratio.clamp(floor, ceiling)
    return torch.minimum(ratio * advantage, clipped * advantage)


def outside_bounds(
    ratio: Tensor, advantage: Tensor, floor: float | Tensor, ceiling: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Return the clipped tokens of :func:`bounded_surrogate` (zero gradient), below and above.

    Two bool masks: negative advantage below the floor, positive advantage above the ceiling.

    Source: Schulman et al. 2017, arXiv:1707.06347, figure 1.

    Examples:
        >>> outside_bounds(torch.tensor([[0.5, 2.0]]), torch.tensor([[-1.0, -1.0]]), 0.8, 1.2)
        (tensor([[ True, False]]), tensor([[False, False]]))
    """
    return (advantage < 0) & (ratio < floor), (advantage > 0) & (ratio > ceiling)


def dual_clipped_surrogate(
    ratio: Tensor, advantage: Tensor, clip_low: float, clip_high: float, clip_dual: float
) -> Tensor:
    """Compute dual-clip PPO's surrogate, ``max(J, clip_dual * A)`` for ``A < 0``, else ``J``.

    ``J`` is :func:`clipped_surrogate`, ``clip_dual > 1``. If ``clip_dual`` is at least
    ``1 + clip_high``, the result equals ``J`` of the ratio ``min(r, clip_dual)``.

    Source: Ye et al. 2020, arXiv:1912.09729 (dual-clip PPO).

    Examples:
        >>> one = torch.ones(1, 1)
        >>> dual_clipped_surrogate(9 * one, -one, 0.2, 0.2, 3.0)
        tensor([[-3.]])
    """
    surrogate = clipped_surrogate(ratio, advantage, clip_low, clip_high)
    bounded = torch.maximum(surrogate, clip_dual * advantage)
    return torch.where(advantage < 0, bounded, surrogate)


def weighted_log_probs(
    log_probs: Tensor, ratio: Tensor, advantage: Tensor, floor: float | None, ceiling: float | None
) -> Tensor:
    """Compute CISPO's surrogate, ``sg[clip(ratio, floor, ceiling)] * advantage * log_probs``.

    None is no bound. Only ``log_probs`` has a gradient.

    Source: MiniMax 2025 (MiniMax-M1), arXiv:2506.13585, eq. 4 and 5.

    Examples:
        >>> one = torch.ones(1, 1)
        >>> weighted_log_probs(-0.5 * one, 9 * one, one, None, 5.0)
        tensor([[-2.5000]])
    """
    weight = ratio.detach()
    if floor is not None or ceiling is not None:
        weight = weight.clamp(floor, ceiling)
    return weight * advantage * log_probs


def gated_surrogate(
    ratio: Tensor, advantage: Tensor, tau_positive: float, tau_negative: float
) -> Tensor:
    """Compute SAPO's surrogate: ``4 / tau * sigmoid(tau * (ratio - 1)) * advantage``.

    The slope is 1 at ratio 1. ``tau > 0`` is ``tau_positive`` for advantages above 0,
    ``tau_negative`` for the others.

    Source: Gao et al. 2025 (SAPO), arXiv:2511.20347.

    Examples:
        >>> gated_surrogate(torch.ones(1, 1), torch.ones(1, 1), 1.0, 1.05)
        tensor([[2.]])
    """
    positive, negative = ratio.new_tensor(tau_positive), ratio.new_tensor(tau_negative)
    tau = torch.where(advantage > 0, positive, negative)
    return 4 / tau * torch.sigmoid(tau * (ratio - 1)) * advantage


def geometric_mean_surrogate(
    log_ratio: Tensor, advantage: Tensor, mask: Tensor, clip_low: float, clip_high: float
) -> Tensor:
    """Compute the GMPO surrogate from the geometric mean of a response's clipped token ratios.

    ``l_it = A_it sg[g_i] exp(x_it) / sg[exp(x_it)]`` with ``g_i = exp((1 / n_i) sum_t x_it)``,
    ``x_it = min(log r_it, clip_high)`` where ``A_it > 0`` and ``max(log r_it, -clip_low)``
    elsewhere. Clips are in nats, at least 0; ``log_ratio`` and ``advantage`` are 0 outside the
    mask.

    The gradient in an unclipped token's log-prob is ``l_it``, or ``g_i A_it / n_i`` in the mean
    over a row. Where the advantages of the row are equal, this is the gradient of ``g_i A_i``.

    Source: Zhao et al. 2025 (GMPO), arXiv:2507.20673. verl instead averages the advantages of a
    row; where they differ between tokens, its gradient is not the policy gradient.

    Examples:
        >>> mask, log_ratio = torch.ones(1, 2).bool(), torch.tensor([[0.9, -0.2]])
        >>> geometric_mean_surrogate(log_ratio, torch.ones(1, 2), mask, 0.4, 0.4)
        tensor([[1.1052, 1.1052]])
    """
    clipped = torch.where(advantage > 0, log_ratio.clamp(max=clip_high), log_ratio.clamp(-clip_low))
    length = mask.sum(1, keepdim=True).clamp(min=1)
    mean = clipped.detach().sum(1, keepdim=True) / length
    token_term = clipped - clipped.detach()  # value 0, with a gradient
    return advantage * (mean + token_term).exp()
