"""GPG advantage: group-centred reward, rescaled by the share of non-zero rewards."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group import gpg_advantage
from rlcomp.interfaces.advantage import broadcast, of_episodes


class Gpg(Component):
    """GPG advantage.

    ``A_i = (B / #{j: R_j != 0}) * (R_i - mean_g(R))``, both counts over the valid rows of the
    batch.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Source:
        Chu et al. 2025, arXiv:2504.02546 (GPG), as in verl.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "trajectory_id")
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        advantage = of_episodes(batch, gpg_advantage)
        return broadcast(batch, advantage)
