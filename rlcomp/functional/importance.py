"""Importance weights and filters for off-policy data: TIS, MIS, Geo-RS, OPSM, VESPO.

The gap of a token is ``log pi_old - log pi_rollout``: the log-prob of the trainer before the update
minus the log-prob recorded by the sampler (another engine, or an older policy). Gaps, log-probs and
log-weights are in nats, ``[B, T]``; gaps are 0 outside the mask. Weights (exponentials of
log-weights) are dimensionless. Results are ``[B, T]``, unless stated otherwise.
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
    """Compute the gap per token, clamped to [-20, 20]; 0 where the sampler recorded NaN.

    Detached. ShapeError if the shapes differ; NumericalError if a log-prob inside the mask is
    infinite, or ``old_log_probs`` is NaN.

    Source: Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL
    training".

    Examples:
        >>> old, rollout = torch.tensor([[-1.0, -2.0]]), torch.tensor([[-1.5, float("nan")]])
        >>> sampler_gap(old, rollout, torch.ones(1, 2, dtype=torch.bool))
        tensor([[0.5000, 0.0000]])
    """
    return log_ratio(
        old_log_probs, fill_unrecorded(rollout_log_probs, old_log_probs), mask
    ).detach()


def fill_unrecorded(rollout_log_probs: Tensor, otherwise: Tensor) -> Tensor:
    """Return the sampler's log-probs, with a detached fallback where it recorded NaN.

    Examples:
        >>> rollout, old = torch.tensor([[-1.5, float("nan")]]), torch.tensor([[-1.0, -2.0]])
        >>> fill_unrecorded(rollout, old)
        tensor([[-1.5000, -2.0000]])
    """
    return torch.where(rollout_log_probs.isnan(), otherwise.detach(), rollout_log_probs)


def level_log_weight(gap: Tensor, mask: Tensor, level: Level) -> Tensor:
    """Compute the log importance weight at token, sequence or geometric-mean level, in [-20, 20].

    With the gaps ``x`` of a row of ``n`` tokens: ``token``: ``x_t``; ``sequence``: ``sum_t x_t``;
    ``sequence_mean``: ``(1 / n) sum_t x_t``. The last two are the same at all positions of the row,
    also outside the mask. A sum grows with the length: 0.002 nats per token make e^8 over 4,000
    tokens.

    Source: Yao et al. 2025 (token, sequence); Zheng et al. 2025, arXiv:2507.18071, eq. 7 (mean).

    Examples:
        >>> gap, mask = torch.tensor([[0.25, 0.75]]), torch.ones(1, 2, dtype=torch.bool)
        >>> level_log_weight(gap, mask, "sequence")
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

    Source: Ionides 2008, "Truncated importance sampling"; Yao et al. 2025.

    Examples:
        >>> truncated_weight(torch.tensor([[0.0, 2.0]]), 0.0, 2.0)
        tensor([[1., 2.]])
    """
    return log_weight.exp().clamp(floor, cap)


def within_bounds(log_weight: Tensor, low: float, high: float) -> Tensor:
    """Test if weights are inside the bounds (IcePop): ``low <= exp(log_weight) <= high``.

    Source: IcePop: Ling team 2025, arXiv:2510.18855, section 3; for sequences: Liu et al. 2025,
    "When speed kills stability".

    Examples:
        >>> within_bounds(torch.tensor([[0.0, 2.0]]), 0.5, 5.0)
        tensor([[ True, False]])
    """
    ratio = log_weight.exp()
    return (ratio >= low) & (ratio <= high)


def normaliser(weight: Tensor, mask: Tensor, level: Level) -> Tensor:
    """Compute the mean weight over tokens or sequences (self-normalised importance sampling).

    A scalar; 1 where nothing is inside the mask. Unless ``level`` is ``token``, the weight is
    constant in each row and counts once.

    Source: Self-normalised importance sampling: Owen 2013, "Monte Carlo theory", section 9.2.

    Examples:
        >>> normaliser(torch.tensor([[1.0, 3.0]]), torch.ones(1, 2, dtype=torch.bool), "token")
        tensor(2.)
    """
    # Of a sequence count its first token alone.
    selected = mask if level == "token" else mask & (mask.cumsum(1) == 1)
    number = selected.sum()
    mean = masked(weight, selected).sum() / number.clamp(min=1)
    return torch.where(number > 0, mean, torch.ones_like(mean))


def aggregate_rows(values: Tensor, mask: Tensor, aggregate: Aggregate) -> Tensor:
    """Return per-token values, or their sum, mean or maximum over the row; 0 in empty rows.

    ``values`` are ``[B, T]``, 0 outside the mask. A sum, mean or maximum is the same at all
    positions of the row, also outside the mask.

    Source: verl, rollout correction, ``compute_rollout_rejection_mask``.

    Examples:
        >>> aggregate_rows(torch.tensor([[1.0, 3.0]]), torch.ones(1, 2, dtype=torch.bool), "mean")
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


def off_policy_tokens(
    log_probs: Tensor, rollout_log_probs: Tensor, advantage: Tensor, mask: Tensor, delta: float
) -> Tensor:
    """Return the mask of the tokens to drop by off-policy sequence masking (DeepSeek-V3.2).

    ``A_it < 0`` and ``(1 / n_i) sum_t (log pi_rollout_t - log pi_t) > delta``, ``delta`` in nats
    per token. The difference is clamped to [-20, 20], and 0 where the sampler recorded NaN. Errors
    are as in :func:`sampler_gap`.

    Source: DeepSeek-V3.2 2025, arXiv:2512.02556, eq. 9.

    Examples:
        >>> one = torch.ones(1, 1)
        >>> off_policy_tokens(-2 * one, -one, -one, one.bool(), 0.5)
        tensor([[True]])
    """
    gap = -sampler_gap(log_probs.detach(), rollout_log_probs, mask)
    return mask & (advantage < 0) & (aggregate_rows(gap, mask, "mean") > delta)


def upper_quantile(values: Tensor, mask: Tensor, fraction: float) -> Tensor:
    """Compute the ``1 - fraction`` quantile of the entries inside the mask, interpolated linearly.

    A detached scalar; 0 where nothing is inside the mask. ``torch.quantile`` refuses more than 16
    million entries; a sort does not.

    Source: Wang et al. 2025, "Beyond the 80/20 rule", arXiv:2506.01939, eq. 5.

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


def gamma_weight(
    ratio: Tensor,
    advantage: Tensor,
    shape: tuple[float, float],
    rate: tuple[float, float],
) -> Tensor:
    """Compute VESPO's weight of a ratio: ``phi(r) = r^k exp(lambda (1 - r))``, detached.

    It is 1 at ratio 1, largest at ``k / lambda``, and near 0 for ratios near 0 and for large ones.
    ``shape`` holds ``k`` and ``rate`` holds ``lambda``: first for advantages of at least 0, then
    for negative ones.

    Source: Shen et al. 2026 (VESPO), arXiv:2602.10693; scaled to ``phi(1) = 1`` as in TRL.

    Examples:
        >>> ratio, advantage = torch.tensor([[1.0, 2.0, 2.0]]), torch.tensor([[1.0, 1.0, -1.0]])
        >>> gamma_weight(ratio, advantage, (2.0, 3.0), (3.0, 2.0))
        tensor([[1.0000, 0.1991, 1.0827]])
    """
    ratio, positive = ratio.detach(), advantage >= 0
    k = torch.where(positive, ratio.new_tensor(shape[0]), ratio.new_tensor(shape[1]))
    decay = torch.where(positive, ratio.new_tensor(rate[0]), ratio.new_tensor(rate[1]))
    return (k * ratio.log() + decay * (1 - ratio)).exp()
