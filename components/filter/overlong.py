"""DAPO's overlong filter: no training on truncated responses."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.metrics import record


class Overlong(Component):
    """DAPO's overlong filter: sets ``response_mask`` of truncated rows to False.

    These rows have no gradient and are in no denominator. The filter comes after the advantage, so
    that their rewards still count in the baseline.

    Reads ``truncated`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``response_mask``. Records
    ``filter/overlong_fraction``.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.4.
    """

    reads = ("truncated", "response_mask")
    writes = ("response_mask",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Set the masks to False."""
        batch["response_mask"] = batch["response_mask"] & ~batch["truncated"][:, None]
        record("filter/overlong_fraction", batch["truncated"])
        return batch
