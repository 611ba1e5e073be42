"""RLOO advantage: leave-one-out baseline."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group import leave_one_out
from rlcomp.interfaces.advantage import broadcast, of_episodes


class LeaveOneOut(Component):
    """RLOO advantage: leave-one-out baseline.

    ``A_i = R_i - (1 / (n - 1)) sum_{j != i} R_j = (n / (n - 1)) (R_i - mean_g(R))``.

    Unbiased: a response is not part of its own baseline.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Source:
        Ahmadian et al. 2024, arXiv:2402.14740, eq. 8; Kool et al. 2019.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "trajectory_id")
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        advantage = of_episodes(batch, leave_one_out)
        return broadcast(batch, advantage)
