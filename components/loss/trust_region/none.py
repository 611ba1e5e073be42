"""Absence of a trust region: plain importance sampling."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.functional.surrogate import neutral_outside
from rlcomp.interfaces.loss import Part


class NoTrustRegion(Part):
    """No trust region: plain importance-sampled policy gradient.

    ``l_t = r_t A_t``, unclipped.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 6.
    """

    equation = "l_t = r_t A_t"
    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        batch["surrogate"] = ratio * advantage
        return batch
