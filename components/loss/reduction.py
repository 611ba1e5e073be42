"""Reductions of token losses."""

from __future__ import annotations

from abc import abstractmethod

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.functional.reduction import fixed_length, sequence_mean, sequence_sum, token_mean


class _Reduction(Component):
    """Base class of reductions: ``loss = sum_it w_it l_it`` with weights ``w`` of the mask alone.

    A row without a valid reward has an empty mask, and no denominator counts it.
    """

    reads = ("response_mask",)
    writes = ("loss_weight",)

    @abstractmethod
    def weights(self, mask: Tensor) -> Tensor:
        """Return the weight of each token of the optimiser step, ``[B, T]``; 0 outside the mask."""

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the weights."""
        batch["loss_weight"] = self.weights(batch["response_mask"])
        return batch


class TokenMean(_Reduction):
    """DAPO's reduction: token mean (token-mean).

    ``w_it = 1 / N`` with ``N`` response tokens in the optimiser step: long responses weigh more.

    Reads ``response_mask`` ``[B, T]`` of the whole optimiser step. Writes ``loss_weight``
    ``[B, T]``.

    Source:
        Yu et al. 2025, arXiv:2503.14476, eq. 8.
    """

    equation = "w_t = 1 / N, N response tokens"

    def weights(self, mask: Tensor) -> Tensor:
        """Return the weight of each token."""
        return token_mean(mask)


class SequenceMean(_Reduction):
    """GRPO's reduction: sequence mean of token means (seq-mean-token-mean).

    ``w_it = 1 / (S * n_i)`` with ``S`` non-empty responses of ``n_i`` tokens: every response weighs
    the same.

    Reads ``response_mask`` ``[B, T]`` of the whole optimiser step. Writes ``loss_weight``
    ``[B, T]``.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 3.
    """

    equation = "w_t = 1 / (S n), S responses of n tokens"

    def weights(self, mask: Tensor) -> Tensor:
        """Return the weight of each token."""
        return sequence_mean(mask)


class SequenceSum(_Reduction):
    """Sequence mean of token sums (seq-mean-token-sum; REINFORCE, RLOO).

    ``w_it = 1 / S`` with ``S`` non-empty responses: the exact policy gradient of the mean return.

    Reads ``response_mask`` ``[B, T]`` of the whole optimiser step. Writes ``loss_weight``
    ``[B, T]``.

    Source:
        Sutton & Barto 2018, section 13.3.
    """

    equation = "w_t = 1 / S, S responses"

    def weights(self, mask: Tensor) -> Tensor:
        """Return the weight of each token."""
        return sequence_sum(mask)


class FixedLength(_Reduction):
    """Dr. GRPO's reduction: token sum divided by a constant (seq-mean-token-sum-norm).

    ``w_it = 1 / (S * L)`` with ``S`` non-empty responses and ``L`` = ``length``: no response-length
    bias. ``S`` does not count rows without a valid reward; in the paper all rows have one.

    Reads ``response_mask`` ``[B, T]`` of the whole optimiser step. Writes ``loss_weight``
    ``[B, T]``.

    Args:
        length: the constant, in tokens; usually the longest response allowed.

    Source:
        Liu et al. 2025, arXiv:2503.20783, section 3.2.
    """

    equation = "w_t = 1 / (S * {length}), S responses"

    def __init__(self, *, length: PositiveInt) -> None:
        super().__init__()
        self.length = length

    def weights(self, mask: Tensor) -> Tensor:
        """Return the weight of each token."""
        return fixed_length(mask, self.length)
