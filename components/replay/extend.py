"""Storage of steps in a replay."""

from __future__ import annotations

from typing import ClassVar

from tensordict import TensorDict

from components.replay.uniform import UniformReplay
from rlcomp.component import Component
from rlcomp.keys import nested
from rlcomp.metrics import record


class Extend(Component):
    """Stage that stores the steps of a batch of any shape and returns the batch.

    It stores only the entries that it declares and leaves out others (a policy's ``loc`` and
    ``scale``). Records ``replay/size``.

    Args:
        replay: the replay that stores them.
    """

    reads: ClassVar[tuple[str, ...]] = (
        *("observation", "action", "next.observation", "next.reward", "next.done"),
        "next.terminated",
    )
    optional: ClassVar[tuple[str, ...]] = (
        *("trajectory", "step_count", "achieved_goal", "desired_goal", "next.achieved_goal"),
        *("expert_action", "intervened"),
    )

    def __init__(self, *, replay: UniformReplay) -> None:
        super().__init__()
        self.replay = replay

    def forward(self, batch: TensorDict) -> TensorDict:
        """Store the steps."""
        keys = [nested(key) for key in (*self.reads, *self.optional)]
        self.replay.extend(batch.select(*keys, strict=False).reshape(-1))
        record("replay/size", len(self.replay))
        return batch
