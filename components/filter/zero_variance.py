"""Zero-variance filter that masks groups of equal rewards."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group_accuracy import varied
from rlcomp.metrics import record


class ZeroVariance(Component):
    """Filter that sets ``response_mask`` of groups with zero reward variance to False.

    Their advantage is 0 anyway. The mask also removes their KL and entropy gradients and takes them
    out of every denominator. The shaped reward is compared; use ``_keys_: {reward: correct}`` to
    compare correctness instead.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``response_mask``. Records ``filter/zero_variance_fraction``.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("response_mask",)
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Set the masks to False."""
        differ = varied(batch["reward"], batch["group_id"], batch["reward_valid"])
        batch["response_mask"] = batch["response_mask"] & differ[:, None]
        record("filter/zero_variance_fraction", ~differ)
        return batch
