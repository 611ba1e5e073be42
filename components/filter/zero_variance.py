"""Groups of equal rewards are not trained on."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group_accuracy import varied
from rlcomp.metrics import record


class ZeroVariance(Component):
    """Empties the response mask of groups whose valid rewards are all equal.

    Their advantage is 0 anyway; without a mask the KL and the entropy do not pull there either, and
    the rows leave every denominator. Rewards are compared as they stand here, with all that was
    added to them: ``_keys_: {reward: correct}`` asks for right and wrong instead.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``response_mask``. Records ``filter/zero_variance_fraction``.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("response_mask",)
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Empty the masks."""
        kept = varied(batch["reward"], batch["group_id"], batch["reward_valid"])
        batch["response_mask"] = batch["response_mask"] & kept[:, None]
        record("filter/zero_variance_fraction", ~kept)
        return batch
