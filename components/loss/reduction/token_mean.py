"""DAPO's reduction: mean over all tokens of the optimiser step."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.reduction import token_mean


class TokenMean(Component):
    """DAPO's reduction: token mean (token-mean).

    ``w_it = 1 / N`` with ``N`` response tokens in the optimiser step: long responses weigh more.
    Rows without a valid reward have an empty mask here.

    Reads ``response_mask`` ``[B, T]`` of the whole optimiser step. Writes ``loss_weight`` ``[B,
    T]``.

    Source:
        Yu et al. 2025, arXiv:2503.14476, eq. 8.
    """

    equation = "w_t = 1 / N, N response tokens"
    reads = ("response_mask",)
    writes = ("loss_weight",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the weights."""
        batch["loss_weight"] = token_mean(batch["response_mask"])
        return batch
