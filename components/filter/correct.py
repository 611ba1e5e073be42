"""Rejection sampling: a filter of right responses."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.metrics import record


class Correct(Component):
    """Rejection sampling: a filter that drops rows with a wrong or unjudged response.

    Keeps row ``i`` iff ``correct_i`` and ``reward_valid_i``. The rest may be imitated
    (rejection-sampling fine-tuning, RAFT, ReST, STaR). Inside a ``Refill`` sampling continues
    until the batch is full.

    Reads ``correct``, ``reward_valid`` ``[B]``. Writes nothing; may return a batch without rows.
    Records ``filter/rejected_fraction``, the share of rows it drops.

    Source:
        Dong et al. 2023 (RAFT), arXiv:2304.06767; Yuan et al. 2023, arXiv:2308.01825.
    """

    reads = ("correct", "reward_valid")
    drops_rows = True

    def forward(self, batch: TensorDict) -> TensorDict:
        """Keep the right rows."""
        right = batch["correct"] & batch["reward_valid"]
        record("filter/rejected_fraction", ~right)
        return batch[right]
