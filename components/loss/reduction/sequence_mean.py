"""GRPO's reduction: mean over responses of the mean over their tokens."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.reduction import sequence_mean


class SequenceMean(Component):
    """GRPO's reduction: sequence mean of token means (seq-mean-token-mean).

    ``w_it = 1 / (S * n_i)`` with ``S`` non-empty responses of ``n_i`` tokens: every response weighs
    the same. Rows without a valid reward have an empty mask here.

    Reads ``response_mask`` ``[B, T]`` of the whole optimiser step. Writes ``loss_weight`` ``[B,
    T]``.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 3.
    """

    equation = "w_t = 1 / (S n), S responses of n tokens"
    reads = ("response_mask",)
    writes = ("loss_weight",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the weights."""
        batch["loss_weight"] = sequence_mean(batch["response_mask"])
        return batch
