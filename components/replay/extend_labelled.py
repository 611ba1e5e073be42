"""Storage of labelled states in a data set."""

from __future__ import annotations

from tensordict import TensorDict

from components.replay.uniform import UniformReplay
from rlcomp.component import Component
from rlcomp.metrics import record


class ExtendLabelled(Component):
    """Stage that stores observations with an expert's actions and returns the batch.

    Records ``replay/size``, the number of labels so far.

    Args:
        replay: the replay that stores them; in DAgger the union of all rounds.
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
