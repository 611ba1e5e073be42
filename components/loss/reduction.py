"""Reductions of token losses."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.functional.reduction import fixed_length, sequence_mean, sequence_sum, token_mean


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


class FixedLength(Component):
    """Dr. GRPO's reduction: token sum divided by a constant (seq-mean-token-sum-norm).

    ``w_it = 1 / (S * L)`` with ``S`` non-empty responses and ``L`` = ``length``: no response-length
    bias. Rows without a valid reward have an empty mask here, and ``S`` does not count them. The
    paper divides by all rows times ``L``, but all its rows are judged.

    Reads ``response_mask`` ``[B, T]`` of the whole optimiser step. Writes ``loss_weight`` ``[B,
    T]``.

    Args:
        length: the constant, in tokens; usually the longest response allowed.

    Source:
        Liu et al. 2025, arXiv:2503.20783, section 3.2.
    """

    equation = "w_t = 1 / (S * {length}), S responses"
    reads = ("response_mask",)
    writes = ("loss_weight",)

    def __init__(self, *, length: PositiveInt) -> None:
        super().__init__()
        self.length = length

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the weights."""
        batch["loss_weight"] = fixed_length(batch["response_mask"], self.length)
        return batch
