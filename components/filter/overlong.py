"""DAPO's overlong filtering: truncated responses are not trained on."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.metrics import record


class Overlong(Component):
    """DAPO's overlong filtering: sets ``response_mask`` of truncated rows to False.

    They have no gradient and leave every denominator. Placed after the advantage: their rewards
    still count in the baseline.

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
