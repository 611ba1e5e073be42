"""DAPO's dynamic-sampling filter of groups with reward variance."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group_accuracy import group_accuracy, varied
from rlcomp.metrics import record


class VariedGroups(Component):
    """Filter that drops groups with zero reward variance (DAPO dynamic sampling).

    Keeps group ``g`` iff ``max_g(R) - min_g(R) > 0`` over its valid rows; groups of one are
    dropped. Belongs inside a ``Refill``, which samples until the batch is full. ``_keys_: {reward:
    correct}`` compares right and wrong instead of rewards.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``correct`` ``[B]`` if it is there.
    Writes nothing; returns whole groups, perhaps none. Records ``filter/zero_variance_fraction``,
    the share of rows it drops, and if answers are judged ``filter/all_right`` and
    ``filter/all_wrong``, the shares of rows in groups without a wrong and without a right answer.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.2.
    """

    reads = ("reward", "reward_valid", "group_id")
    optional = ("correct",)
    drops_rows = True
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Keep the rows of groups that differ."""
        groups, valid = batch["group_id"], batch["reward_valid"]
        differ = varied(batch["reward"], groups, valid)
        record("filter/zero_variance_fraction", ~differ)
        if "correct" in batch.keys():
            accuracy = group_accuracy(batch["correct"], groups, valid)
            record("filter/all_right", (accuracy == 1) & valid)
            record("filter/all_wrong", (accuracy == 0) & valid)
        return batch[differ]
