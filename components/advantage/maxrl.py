"""MaxRL: group-centred reward over the group's mean reward."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group import mean_normalised
from rlcomp.functional.group_statistics import Groups
from rlcomp.interfaces.advantage import broadcast
from rlcomp.metrics import record


class MaxRL(Component):
    """MaxRL advantage: reward less the group's mean, over the mean.

    ``A_i = (R_i - mean_g(R)) / mean_g(R)``.

    For rewards 0 and 1 with success rate p the expected gradient is that of ``log p`` (maximum
    likelihood) up to order ``n - 1`` in ``1 - p``. A prompt solved once in n tries weighs up to n
    times as much as one that is nearly always solved; GRPO's std weighs both the same.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards. Records the mean positive advantage, ``1 / p - 1`` of a success, and
    ``advantage/rare``: the same over groups whose mean is below half of their best reward.

    Raises:
        NumericalError: a valid reward is negative.

    Source:
        Tajwar et al. 2026 (MaxRL), arXiv:2602.02710.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        reward, group_id, valid = batch["reward"], batch["group_id"], batch["reward_valid"]
        advantage = mean_normalised(reward, group_id, valid)
        record("advantage/positive", advantage, where=advantage > 0)
        groups = Groups(reward, group_id, valid)
        rare = 2 * groups.total(groups.reward) < groups.count * groups.highest(groups.valid)
        record("advantage/rare", advantage, where=(advantage > 0) & rare.to(advantage.device))
        return broadcast(batch, advantage)
