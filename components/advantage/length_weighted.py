"""OPO advantage: length-weighted group baseline."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group import length_weighted
from rlcomp.interfaces.advantage import broadcast


class LengthWeighted(Component):
    """OPO advantage: length-weighted optimal baseline.

    ``A_i = R_i - sum_j n_j R_j / sum_j n_j`` over the group, ``n_j`` tokens in response ``j``.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Source:
        Hao et al. 2025, arXiv:2505.23585 (OPO).
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        length = batch["response_mask"].sum(1)
        advantage = length_weighted(
            batch["reward"], length, batch["group_id"], batch["reward_valid"]
        )
        return broadcast(batch, advantage)
