"""The reward above the mean of the other answers to the same prompt."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.advantage import broadcast
from rlcomp.component import Component
from rlcomp.functional.group import group_centred


def leave_one_out(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """``R_i - mean_{j != i} R_j = n / (n - 1) * (R_i - mean(R))`` over the valid rows of a group.

    Args:
        reward: shape ``[B]``.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool.

    Returns:
        Shape ``[B]``, in reward units.

    Examples:
        >>> group, valid = torch.zeros(3, dtype=torch.int64), torch.ones(3, dtype=torch.bool)
        >>> leave_one_out(torch.tensor([1.0, 0.0, 0.0]), group, valid)
        tensor([ 1.0000, -0.5000, -0.5000])
    """
    centred = group_centred(reward, group_id, valid)
    index = torch.unique(group_id, return_inverse=True)[1]
    size = torch.bincount(index, weights=valid.double())[index].to(centred.dtype)
    return centred * size / (size - 1).clamp(min=1)


class LeaveOneOut(Component):
    """RLOO's advantage: unbiased, because an answer is no part of its own baseline.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Source:
        Ahmadian et al. 2024, arXiv:2402.14740, eq. 8; Kool et al. 2019.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        advantage = leave_one_out(batch["reward"], batch["group_id"], batch["reward_valid"])
        return broadcast(batch, advantage)
