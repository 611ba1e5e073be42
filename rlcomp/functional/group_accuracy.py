"""Reward variance and accuracy of groups (DAPO dynamic sampling)."""

from __future__ import annotations

from torch import Tensor

from rlcomp.functional.group_statistics import Groups


def varied(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Test if the rewards of a row's group vary (DAPO dynamic sampling).

    ``max_g(R) - min_g(R) > 0`` beyond rounding, over the valid rows; the same for all rows of a
    group. The standard deviation would not do: for 0.1, 0.1, 0.1 it is 1.4e-17 in float64, above 0.

    Args:
        reward: shape ``[B]``, any dtype.
        group_id: shape ``[B]``, int64, any values in any order.
        valid: shape ``[B]``, bool: rows whose reward could be computed.

    Returns:
        Shape ``[B]``, bool; False for groups with fewer than two valid rows.

    Raises:
        NumericalError: a valid reward is not finite.

    Source:
        Yu et al. 2025, arXiv:2503.14476, eq. 11.

    Examples:
        >>> import torch
        >>> reward, group = torch.tensor([1.0, 1.0, 0.0, 1.0]), torch.tensor([5, 5, 2, 2])
        >>> varied(reward, group, torch.ones(4, dtype=torch.bool))
        tensor([False, False,  True,  True])
    """
    groups = Groups(reward, group_id, valid)
    differ = groups.total(groups.counted.to(groups.reward.dtype)) > 0
    return differ.to(reward.device)


def group_accuracy(correct: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Compute the share of correct responses among the valid ones of a row's group.

    Args:
        correct: shape ``[B]``, bool.
        group_id: shape ``[B]``, int64, any values in any order.
        valid: shape ``[B]``, bool: rows whose answer could be judged.

    Returns:
        Shape ``[B]``, dimensionless, float32, in [0, 1]; 0 where a group has no valid row.

    Source:
        Zhang and Zuo 2025 (GRPO-LEAD), arXiv:2504.09696, section 3.3 (the ratio of right answers).

    Examples:
        >>> import torch
        >>> right, group = torch.tensor([True, False, False]), torch.tensor([5, 5, 2])
        >>> group_accuracy(right, group, torch.ones(3, dtype=torch.bool))
        tensor([0.5000, 0.5000, 0.0000])
    """
    groups = Groups(correct, group_id, valid)
    return (groups.total(groups.reward) / groups.count.clamp(min=1)).to(correct.device)
