"""Rows of one seat of a match."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeInt
from rlcomp.component import Component


class SeatRows(Component):
    """Filter of the rows of one seat, on which its own learner is trained.

    Reads ``seat`` ``[B]``. Writes nothing; may return a batch without rows.

    Args:
        seat: the number of the seat, from 0.
    """

    reads = ("seat",)
    drops_rows = True

    def __init__(self, *, seat: NonNegativeInt = 0) -> None:
        super().__init__()
        self.seat = seat

    def forward(self, batch: TensorDict) -> TensorDict:
        """Keep the rows of the seat."""
        return batch[batch["seat"] == self.seat]
