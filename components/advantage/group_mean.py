"""Dr. GRPO advantage: group-centred reward."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group import group_centred
from rlcomp.interfaces.advantage import broadcast, of_episodes


class GroupMean(Component):
    """Dr. GRPO advantage: group mean baseline, no division by the std.

    ``A_i = R_i - mean_g(R)``.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Source:
        Liu et al. 2025, arXiv:2503.20783 (Dr. GRPO), section 3.2.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "trajectory_id")
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        advantage = of_episodes(batch, group_centred)
        return broadcast(batch, advantage)
