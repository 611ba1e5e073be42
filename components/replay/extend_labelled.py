"""Adds labelled states to a data set."""

from __future__ import annotations

from tensordict import TensorDict

from components.replay.uniform import UniformReplay
from rlcomp.component import Component
from rlcomp.metrics import record


class ExtendLabelled(Component):
    """Stores what was seen and what an expert would have done; hands the batch on.

    Records ``replay/size``: labels so far.

    Args:
        replay: takes them; of DAgger the union of all rounds.
    """

    reads = ("observation", "expert_action")

    def __init__(self, *, replay: UniformReplay) -> None:
        super().__init__()
        self.replay = replay

    def forward(self, batch: TensorDict) -> TensorDict:
        """Store the states."""
        self.replay.extend(batch.select(*self.reads).reshape(-1))
        record("replay/size", len(self.replay))
        return batch
