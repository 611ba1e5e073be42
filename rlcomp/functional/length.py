"""Length-based rewards and penalties.

``length`` counts response tokens, and so do limits and targets of lengths. ``length``, ``correct``
(bool), ``group_id`` (int64) and ``valid`` (bool) are ``[B]``; ``correct`` is False where the reward
is not valid. Results are ``[B]``, in reward units.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlcomp.functional.group_statistics import Groups, group_accuracy

# Added to the standard deviation of lengths, in tokens, so that z is 0 for equal lengths.
_EPSILON = 1e-8


def soft_overlong(length: Tensor, max_length: float, buffer: float, factor: float) -> Tensor:
    """Compute DAPO's soft overlong punishment, in ``[-factor, 0]``.

    ``factor * clip((L_max - buffer - L) / buffer, -1, 0)``: 0 up to ``L_max - buffer``, then linear
    down to ``-factor`` at ``L_max`` and beyond.

    Source: Yu et al. 2025, arXiv:2503.14476, eq. 13.

    Examples:
        >>> soft_overlong(torch.tensor([6.0, 7, 8, 12]), max_length=10, buffer=4, factor=1.0)
        tensor([ 0.0000, -0.2500, -0.5000, -1.0000])
    """
    return factor * ((max_length - buffer - length) / buffer).clamp(-1.0, 0.0)


def kimi_length(length: Tensor, correct: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Compute Kimi k1.5's length reward.

    ``lambda = 0.5 - (L - L_min) / (L_max - L_min)`` for correct responses, ``min(0, lambda)`` for
    wrong ones, over the valid rows of the group; 0 for invalid rows and where all lengths are
    equal.

    Source: Kimi team 2025, arXiv:2501.12599, section 2.3.3.

    Examples:
        >>> right, group = torch.tensor([True, True, False]), torch.zeros(3, dtype=torch.int64)
        >>> kimi_length(torch.tensor([10.0, 20, 10]), right, group, torch.ones(3).bool())
        tensor([ 0.5000, -0.5000,  0.0000])
    """
    high = Groups(length, group_id, valid).highest(valid.cpu()).to(length.device)
    low = -Groups(-length, group_id, valid).highest(valid.cpu()).to(length.device)
    apart = valid & (high > low)
    span = torch.where(apart, high - low, torch.ones_like(length))
    score = 0.5 - (length - torch.where(apart, low, length)) / span
    score = torch.where(correct.bool(), score, score.clamp(max=0.0))
    return torch.where(apart, score, torch.zeros_like(score))


def l1_exact(length: Tensor, correct: Tensor, target: Tensor | float, alpha: float) -> Tensor:
    """Compute LCPO-Exact (L1): ``1[correct] - alpha * |L* - L|``.

    Source: Aggarwal and Welleck 2025, arXiv:2503.04697, eq. 1.

    Examples:
        >>> l1_exact(torch.tensor([90.0, 110.0]), torch.tensor([True, False]), 100.0, 0.01)
        tensor([ 0.9000, -0.1000])
    """
    return correct.to(length.dtype) - alpha * (target - length).abs()


def l1_max(
    length: Tensor, correct: Tensor, target: Tensor | float, alpha: float, delta: float
) -> Tensor:
    """Compute LCPO-Max (L1): ``1[correct] * clip(alpha * (L* - L) + delta, 0, 1)``.

    Source: Aggarwal and Welleck 2025, arXiv:2503.04697, eq. 2.

    Examples:
        >>> length = torch.tensor([90.0, 100.0, 900.0])
        >>> l1_max(length, torch.ones(3).bool(), 100.0, alpha=0.01, delta=0.5)
        tensor([0.6000, 0.5000, 0.0000])
    """
    value = (alpha * (target - length) + delta).clamp(0.0, 1.0)
    return torch.where(correct.bool(), value, torch.zeros_like(value))


def cosine_length(
    length: Tensor,
    correct: Tensor,
    max_length: float,
    *,
    right: tuple[float, float],
    wrong: tuple[float, float],
    exceeded: float,
) -> Tensor:
    """Reward by the cosine of the length: more for shorter right and for longer wrong answers.

    ``R = r_L + (r_0 - r_L) (1 + cos(pi L / L_max)) / 2``, from ``r_0`` at length 0 to ``r_L`` at
    ``L_max``; ``right`` and ``wrong`` are pairs ``(r_0, r_L)``. ``exceeded`` is the reward from
    ``L_max`` tokens on, right or wrong.

    Source: Yeo et al. 2025, arXiv:2502.03373, eq. 1 and 2.

    Examples:
        >>> length, correct = torch.tensor([0.0, 5, 5, 10]), torch.tensor([True, True, False, True])
        >>> cosine_length(length, correct, 10, right=(2, 1), wrong=(-10, 0), exceeded=-10)
        tensor([  2.0000,   1.5000,  -5.0000, -10.0000])
    """
    falling = (1 + torch.cos(math.pi * length / max_length)) / 2
    start = torch.where(correct, right[0], wrong[0])
    end = torch.where(correct, right[1], wrong[1])
    return torch.where(length < max_length, end + (start - end) * falling, exceeded)


def length_deviation(length: Tensor, group_id: Tensor, where: Tensor) -> Tensor:
    """Compute the z-score of the length among the selected rows of its group (population std).

    ``z_i = (L_i - mean_g(L)) / (std_g(L) + 1e-8)``, dimensionless; ``where`` selects rows. 0 for
    rows not selected, for a single row, and for equal lengths. NumericalError if a selected length
    is not finite.

    Source: Zhang and Zuo 2025 (GRPO-LEAD), arXiv:2504.09696, section 3.1.

    Examples:
        >>> group = torch.zeros(3, dtype=torch.int64)
        >>> length_deviation(torch.tensor([10.0, 20, 99]), group, torch.tensor([True, True, False]))
        tensor([-1.,  1.,  0.])
    """
    groups = Groups(length, group_id, where)
    apart = groups.centred()
    std = (groups.total(apart**2) / groups.count.clamp(min=1)).sqrt()
    return (apart / (std + _EPSILON)).to(length.device)


def grpo_lead(length: Tensor, correct: Tensor, group_id: Tensor, alpha: float) -> Tensor:
    """Compute GRPO-LEAD's accuracy reward: ``exp(-alpha * z)`` if correct, else -1.

    ``z`` is the length z-score among the correct responses of the group. A row without a valid
    reward gets -1, too.

    Source: Zhang and Zuo 2025, arXiv:2504.09696, section 3.1.

    Examples:
        >>> right, group = torch.tensor([True, True, False]), torch.zeros(3, dtype=torch.int64)
        >>> grpo_lead(torch.tensor([10.0, 20, 10]), right, group, alpha=0.05)
        tensor([ 1.0513,  0.9512, -1.0000])
    """
    right = correct.bool()
    score = (-alpha * length_deviation(length, group_id, right)).exp()
    return torch.where(right, score, torch.full_like(score, -1.0))


def solved_length_penalty(
    length: Tensor, correct: Tensor, group_id: Tensor, valid: Tensor, min_accuracy: float
) -> Tensor:
    """Penalise the length of correct responses, gated by group accuracy (GRPO-lambda).

    ``-sigmoid(z)`` for correct responses of groups with accuracy at or above ``min_accuracy``, else
    0; ``z`` is the length z-score among the correct responses of the group.

    Source: Arora and Zanette 2025, arXiv:2502.04463, eq. 3 (the sigmoid); Dai et al. 2025,
    arXiv:2505.18086 (only where the group is solved).

    Examples:
        >>> right, group = torch.tensor([True, True, False]), torch.zeros(3, dtype=torch.int64)
        >>> length, valid = torch.tensor([10.0, 20, 10]), torch.ones(3).bool()
        >>> solved_length_penalty(length, right, group, valid, min_accuracy=0.5)
        tensor([-0.2689, -0.7311,  0.0000])
        >>> solved_length_penalty(length, right, group, valid, min_accuracy=0.9)
        tensor([0., 0., 0.])
    """
    right = correct.bool()
    counted = right & (group_accuracy(right, group_id, valid) >= min_accuracy)
    penalty = -torch.sigmoid(length_deviation(length, group_id, right))
    return torch.where(counted, penalty, torch.zeros_like(penalty))


def stop_properly(reward: Tensor, truncated: Tensor, coef: float) -> Tensor:
    """Apply ProRL's stop-properly penalty to the rewards of truncated rows.

    Their reward becomes ``coef * R`` if ``coef`` is at least 0, and ``coef`` itself if it is below
    0. ``reward`` and ``truncated`` (bool) are ``[B]``.

    Source: Liu et al. 2025 (ProRL), arXiv:2505.24864; the two meanings of the coefficient are
    OpenRLHF's.

    Examples:
        >>> reward, cut = torch.tensor([1.0, 1.0]), torch.tensor([True, False])
        >>> stop_properly(reward, cut, 0.25), stop_properly(reward, cut, -1.0)
        (tensor([0.2500, 1.0000]), tensor([-1.,  1.]))
    """
    stopped = reward * coef if coef >= 0 else torch.full_like(reward, coef)
    return torch.where(truncated, stopped, reward)
