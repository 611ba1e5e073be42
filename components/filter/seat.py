"""Rows of one seat of a match."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeInt
from rlcomp.component import Component


class SeatRows(Component):
    """Keeps the rows that one seat wrote: what its own learner is trained on.

    Reads ``seat`` ``[B]``. Writes nothing; what it returns may have no rows.

    Args:
        seat: its number, from 0.
    """

    reads = ("seat",)
    drops_rows = True

    def __init__(self, *, seat: NonNegativeInt = 0) -> None:
        super().__init__()
        self.seat = seat

    def forward(self, batch: TensorDict) -> TensorDict:
        """Keep its rows."""
        return batch[batch["seat"] == self.seat]
