"""OPO advantage: length-weighted group baseline."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group import group_centred, length_weighted
from rlcomp.interfaces.advantage import broadcast
from rlcomp.metrics import record


class LengthWeighted(Component):
    """OPO advantage: length-weighted optimal baseline.

    ``A_i = R_i - sum_j n_j R_j / sum_j n_j`` over the group, ``n_j`` tokens in response ``j``.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards. Records how far the baseline is from the mean reward of the group, in reward units.

    Source:
        Hao et al. 2025, arXiv:2505.23585 (OPO).
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        reward, group_id, valid = batch["reward"], batch["group_id"], batch["reward_valid"]
        advantage = length_weighted(reward, batch["response_mask"].sum(1), group_id, valid)
        shift = group_centred(reward, group_id, valid) - advantage
        record("advantage/baseline_shift", shift.abs(), where=valid)
        return broadcast(batch, advantage)
