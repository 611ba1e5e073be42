"""GRPO with process supervision (step rewards)."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.functional.group import group_standardised
from rlcomp.functional.group_statistics import Groups


def step_advantage(
    token_reward: Tensor, step_end: Tensor, group_id: Tensor, valid: Tensor, epsilon: float
) -> Tensor:
    """GRPO process-supervision advantage (DeepSeekMath).

    ``A_it = sum_{j: end(j) >= t} (r_ij - mean_g(r)) / (std_g(r) + eps)``; mean and unbiased std
    over the step rewards of all responses of the group.

    Args:
        token_reward: the rewards of the steps, each on its last token, shape ``[B, T]``.
        step_end: which tokens end a rewarded step, shape ``[B, T]``, bool.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool: answers that count.
        epsilon: added to the standard deviation, in reward units.

    Returns:
        Shape ``[B, T]``, dimensionless; 0 for invalid rows, in groups in which fewer than two
        answers have a rewarded step, and where all steps of the group are rewarded alike.

    Source:
        Shao et al. 2024, arXiv:2402.03300, section 4.1.3 (process supervision).

    Examples:
        >>> reward, end = torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[True], [False]])
        >>> end = torch.cat([end, torch.ones(2, 1, dtype=torch.bool)], 1)
        >>> group, valid = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool)
        >>> step_advantage(reward, end, group, valid, 1e-12)
        tensor([[ 0.5774, -0.5774],
                [-0.5774, -0.5774]])
    """
    judged = valid.bool() & step_end.any(1)
    peers = Groups(torch.zeros_like(group_id), group_id, judged).count.to(group_id.device)
    ends = step_end & (judged & (peers >= 2))[:, None]
    rows = ends.nonzero()[:, 0]
    everyone = torch.ones_like(rows, dtype=torch.bool)
    scores = group_standardised(token_reward[ends], group_id[rows], everyone, epsilon)
    steps = scores.new_zeros(ends.shape).masked_scatter(ends, scores)
    return steps.flip(1).cumsum(1).flip(1)
