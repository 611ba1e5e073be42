"""Importance weights and filters for off-policy data: TIS, MIS, Geo-RS, OPSM.

The gap of a token is ``log pi_old - log pi_rollout``: the log-prob of the trainer before the update
minus the log-prob recorded by the sampler (another engine, or an older policy).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlcomp.functional.ratio import LOG_RATIO_BOUND, log_ratio
from rlcomp.functional.reduction import masked

Level = Literal["token", "sequence", "sequence_mean"]
Aggregate = Literal["token", "sum", "mean", "max"]


def sampler_gap(old_log_probs: Tensor, rollout_log_probs: Tensor, mask: Tensor) -> Tensor:
    """Compute the sampler-trainer mismatch per token, ``log pi_old - log pi_rollout``.

    Args:
        old_log_probs: shape ``[B, T]``, nats.
        rollout_log_probs: shape ``[B, T]``, nats; NaN where the sampler recorded none.
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, nats, in [-20, 20], 0 outside the mask and for NaN records.

    Raises:
        NumericalError: a log-prob inside the mask is infinite, or ``old_log_probs`` is NaN.

    Source:
        Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training".

    Examples:
        >>> old, rollout = torch.tensor([[-1.0, -2.0]]), torch.tensor([[-1.5, float("nan")]])
        >>> sampler_gap(old, rollout, torch.ones(1, 2, dtype=torch.bool))
        tensor([[0.5000, 0.0000]])
    """
    return log_ratio(old_log_probs, recorded(rollout_log_probs, old_log_probs), mask).detach()


def recorded(rollout_log_probs: Tensor, otherwise: Tensor) -> Tensor:
    """Return the sampler's log-probs, with a fallback where it recorded NaN.

    Args:
        rollout_log_probs: shape ``[B, T]``, nats.
        otherwise: the fallback, shape ``[B, T]``, nats; passes no gradient on.

    Returns:
        Shape ``[B, T]``, nats.

    Source:
        Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training":
        the sampler's own log-probs.

    Examples:
        >>> rollout, old = torch.tensor([[-1.5, float("nan")]]), torch.tensor([[-1.0, -2.0]])
        >>> recorded(rollout, old)
        tensor([[-1.5000, -2.0000]])
    """
    return torch.where(rollout_log_probs.isnan(), otherwise.detach(), rollout_log_probs)


def at_level(gap: Tensor, mask: Tensor, level: Level) -> Tensor:
    """Compute the log importance weight at token, sequence or geometric-mean level.

    ``token``: ``x_t``; ``sequence``: ``sum_t x_t``; ``sequence_mean``: ``(1 / n) sum_t x_t``.

    A sum grows with the length: 0.002 nats per token make e^8 over 4,000 tokens.

    Args:
        gap: shape ``[B, T]``, nats, 0 outside the mask.
        mask: shape ``[B, T]``, bool.
        level: ``token``, ``sequence`` (sum) or ``sequence_mean`` (geometric mean of the ratios).

    Returns:
        Shape ``[B, T]``, nats, in [-20, 20].

    Source:
        Yao et al. 2025 (token, sequence); Zheng et al. 2025, arXiv:2507.18071, eq. 7 (mean).

    Examples:
        >>> gap, mask = torch.tensor([[0.25, 0.75]]), torch.ones(1, 2, dtype=torch.bool)
        >>> at_level(gap, mask, "sequence")
        tensor([[1., 1.]])
    """
    if level == "token":
        return gap
    total = gap.sum(1, keepdim=True)
    if level == "sequence_mean":
        total = total / mask.sum(1, keepdim=True).clamp(min=1)
    return total.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).expand_as(gap)


def truncated_weight(log_weight: Tensor, floor: float, cap: float) -> Tensor:
    """Truncate importance weights (TIS): ``clip(exp(log_weight), floor, cap)``.

    Args:
        log_weight: shape ``[B, T]``, nats.
        floor: the least weight; 0 for none.
        cap: the largest weight.

    Returns:
        Shape ``[B, T]``, dimensionless.

    Source:
        Ionides 2008, "Truncated importance sampling"; Yao et al. 2025.

    Examples:
        >>> truncated_weight(torch.tensor([[0.0, 2.0]]), 0.0, 2.0)
        tensor([[1., 2.]])
    """
    return log_weight.exp().clamp(floor, cap)


def inside(log_weight: Tensor, low: float, high: float) -> Tensor:
    """Test if weights are inside the bounds (IcePop): ``low <= exp(log_weight) <= high``.

    Args:
        log_weight: shape ``[B, T]``, nats.
        low: the least accepted ratio.
        high: the largest accepted ratio.

    Returns:
        Shape ``[B, T]``, bool.

    Source:
        IcePop: Ling team 2025, arXiv:2510.18855, section 3; for sequences: Liu et al. 2025, "When
        speed kills stability".

    Examples:
        >>> inside(torch.tensor([[0.0, 2.0]]), 0.5, 5.0)
        tensor([[ True, False]])
    """
    ratio = log_weight.exp()
    return (ratio >= low) & (ratio <= high)


def normaliser(weight: Tensor, mask: Tensor, level: Level) -> Tensor:
    """Compute the mean weight over tokens or sequences (self-normalised importance sampling).

    Args:
        weight: shape ``[B, T]``; constant in each row unless ``level`` is ``token``.
        mask: shape ``[B, T]``, bool.
        level: ``token``, or a level of sequences.

    Returns:
        A scalar; 1 where nothing is inside the mask.

    Source:
        Self-normalised importance sampling: Owen 2013, "Monte Carlo theory", section 9.2.

    Examples:
        >>> normaliser(torch.tensor([[1.0, 3.0]]), torch.ones(1, 2, dtype=torch.bool), "token")
        tensor(2.)
    """
    counted = mask if level == "token" else mask & (mask.cumsum(1) == 1)
    number = counted.sum()
    mean = masked(weight, counted).sum() / number.clamp(min=1)
    return torch.where(number > 0, mean, torch.ones_like(mean))


def aggregated(values: Tensor, mask: Tensor, aggregate: Aggregate) -> Tensor:
    """Return per-token values, or their sum, mean or maximum over the row.

    Args:
        values: shape ``[B, T]``, nats, 0 outside the mask.
        mask: shape ``[B, T]``, bool.
        aggregate: the reduction.

    Returns:
        Shape ``[B, T]``, nats; 0 in rows without a token.

    Source:
        verl, rollout correction, ``compute_rollout_rejection_mask``.

    Examples:
        >>> aggregated(torch.tensor([[1.0, 3.0]]), torch.ones(1, 2, dtype=torch.bool), "mean")
        tensor([[2., 2.]])
    """
    if aggregate == "token":
        return values
    if aggregate == "max":
        lowest = values.new_full((), -torch.inf)
        row = torch.where(mask, values, lowest).amax(1, keepdim=True)
        row = masked(row, mask.any(1, keepdim=True))
    else:
        row = values.sum(1, keepdim=True)
        if aggregate == "mean":
            row = row / mask.sum(1, keepdim=True).clamp(min=1)
    return row.expand_as(values)


def off_policy(
    log_probs: Tensor, rollout_log_probs: Tensor, advantage: Tensor, mask: Tensor, delta: float
) -> Tensor:
    """Return the tokens to drop by off-policy sequence masking (DeepSeek-V3.2).

    ``A_it < 0`` and ``(1 / n_i) sum_t (log pi_rollout_t - log pi_t) > delta``.

    Args:
        log_probs: shape ``[B, T]``, nats; no gradient is taken.
        rollout_log_probs: shape ``[B, T]``, nats; NaN counts as no gap.
        advantage: shape ``[B, T]``.
        mask: shape ``[B, T]``, bool.
        delta: nats per token.

    Returns:
        Shape ``[B, T]``, bool, False outside the mask.

    Source:
        DeepSeek-V3.2 2025, arXiv:2512.02556, eq. 9.

    Examples:
        >>> one = torch.ones(1, 1)
        >>> off_policy(-2 * one, -one, -one, one.bool(), 0.5)
        tensor([[True]])
    """
    gap = -sampler_gap(log_probs.detach(), rollout_log_probs, mask)
    return mask & (advantage < 0) & (aggregated(gap, mask, "mean") > delta)


def upper_quantile(values: Tensor, mask: Tensor, fraction: float) -> Tensor:
    """Compute the ``1 - fraction`` quantile of the entries inside the mask, interpolated linearly.

    ``torch.quantile`` refuses more than 16 million entries; a sort does not.

    Args:
        values: shape ``[B, T]``.
        mask: shape ``[B, T]``, bool.
        fraction: in [0, 1].

    Returns:
        A scalar; 0 where nothing is inside the mask.

    Source:
        Wang et al. 2025, "Beyond the 80/20 rule", arXiv:2506.01939, eq. 5.

    Examples:
        >>> upper_quantile(torch.arange(6.0)[None], torch.ones(1, 6, dtype=torch.bool), 0.5)
        tensor(2.5000)
    """
    ordered = values.detach()[mask].sort().values
    if not len(ordered):
        return values.new_zeros(())
    rank = (1.0 - fraction) * (len(ordered) - 1)
    below = int(rank)
    above = min(below + 1, len(ordered) - 1)
    return torch.lerp(ordered[below], ordered[above], rank - below)
