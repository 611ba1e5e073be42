"""GRPO advantage with batch-level std (``scale_rewards="batch"`` in TRL)."""

from __future__ import annotations

from functools import partial

from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.group import group_batch_standardised
from rlcomp.interfaces.advantage import broadcast, of_episodes


class GroupBatchStd(Component):
    """GRPO advantage with group mean and batch std.

    ``A_i = (R_i - mean_g(R)) / (std_B(R) + eps)``; unbiased std of all valid rewards of the batch.

    Unlike GRPO, no group is divided by its own small std, which would up-weight very easy and very
    hard prompts.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Args:
        epsilon: eps, in reward units.

    Source:
        Liu et al. 2025, arXiv:2508.08221, section 4; ``scale_rewards="batch"`` in TRL.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "trajectory_id")
    min_group_size = 2

    def __init__(self, *, epsilon: PositiveFloat = 1e-4) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        advantage = of_episodes(batch, partial(group_batch_standardised, epsilon=self.epsilon))
        return broadcast(batch, advantage)
