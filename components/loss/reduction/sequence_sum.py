"""Sequence mean of token sums (REINFORCE, RLOO)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.reduction import sequence_sum


class SequenceSum(Component):
    """Sequence mean of token sums (seq-mean-token-sum; REINFORCE, RLOO).

    ``w_it = 1 / S`` with ``S`` non-empty responses: the exact policy gradient of the mean return.
    Rows without a valid reward have an empty mask here.

    Reads ``response_mask`` ``[B, T]`` of the whole optimiser step. Writes ``loss_weight`` ``[B,
    T]``.

    Source:
        Sutton & Barto 2018, section 13.3.
    """

    equation = "w_t = 1 / S, S responses"
    reads = ("response_mask",)
    writes = ("loss_weight",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the weights."""
        batch["loss_weight"] = sequence_sum(batch["response_mask"])
        return batch
