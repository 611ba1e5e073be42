"""Only groups whose rewards differ."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group_accuracy import varied


class VariedGroups(Component):
    """Drops the rows of groups whose valid rewards are all equal, groups of one among them.

    Belongs inside a ``Refill``, which samples on until the batch is full. ``_keys_: {reward:
    correct}`` compares right and wrong instead of rewards.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``. Writes nothing; what it returns holds
    whole groups, perhaps none.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.2.
    """

    reads = ("reward", "reward_valid", "group_id")
    drops_rows = True
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Keep the rows of groups that differ."""
        return batch[varied(batch["reward"], batch["group_id"], batch["reward_valid"])]
