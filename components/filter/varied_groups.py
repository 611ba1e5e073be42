"""DAPO's dynamic-sampling filter: keep only groups with reward variance."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group_accuracy import varied


class VariedGroups(Component):
    """Drops groups with zero reward variance (DAPO dynamic sampling).

    Keeps group ``g`` iff ``max_g(R) - min_g(R) > 0`` over its valid rows; groups of one are
    dropped. Belongs inside a ``Refill``, which samples until the batch is full. ``_keys_: {reward:
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
