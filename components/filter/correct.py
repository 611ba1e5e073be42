"""Rejection sampling: keep only right responses."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.metrics import record


class Correct(Component):
    """Rejection sampling: drops the rows whose response is wrong or was not judged.

    Keeps row ``i`` iff ``correct_i`` and ``reward_valid_i``. What is left may be imitated
    (rejection-sampling fine-tuning, RAFT, ReST, STaR); inside a ``Refill`` it is sampled until the
    batch is full.

    Reads ``correct``, ``reward_valid`` ``[B]``. Writes nothing; what it returns may have no rows.
    Records ``filter/rejected_fraction``, the share of rows it drops.

    Source:
        Dong et al. 2023 (RAFT), arXiv:2304.06767; Yuan et al. 2023, arXiv:2308.01825.
    """

    reads = ("correct", "reward_valid")
    drops_rows = True

    def forward(self, batch: TensorDict) -> TensorDict:
        """Keep the right rows."""
        kept = batch["correct"] & batch["reward_valid"]
        record("filter/rejected_fraction", ~kept)
        return batch[kept]
