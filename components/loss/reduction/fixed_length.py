"""Dr. GRPO's reduction: token sum over a constant length."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.functional.reduction import fixed_length


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
