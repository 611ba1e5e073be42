"""Samples of steps from a replay."""

from __future__ import annotations

from typing import ClassVar

from tensordict import TensorDict

from components.replay.extend import Extend
from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.errors import FlowError


class Sample(Component):
    """Stage that draws a new batch of steps from a replay.

    Reads nothing. Writes what :class:`~components.replay.extend.Extend` stored.

    Args:
        replay: the replay to draw from.
        batch_size: rows per batch (``N``).

    Raises:
        ConfigError: the capacity of the replay is smaller than a batch.
        FlowError: the replay holds fewer rows.
    """

    writes: ClassVar[tuple[str, ...]] = (*Extend.reads,)
    may_write: ClassVar[tuple[str, ...]] = (*Extend.optional, "index", "priority_weight")
    fresh = True

    def __init__(self, *, replay: UniformReplay, batch_size: PositiveInt = 256) -> None:
        super().__init__()
        replay.check_draws(batch_size)
        self.replay = replay
        self.batch_size = batch_size

    def forward(self, batch: TensorDict) -> TensorDict:
        """Draw the rows."""
        if len(self.replay) < self.batch_size:
            raise FlowError(
                f"the replay holds {len(self.replay)} steps, batch_size is {self.batch_size}: "
                "let it fill first (phases.warm_up.steps), or lower batch_size"
            )
        return self.replay.sample(self.batch_size)
