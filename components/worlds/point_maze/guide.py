"""Expert of the U maze."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.interfaces.batched_environment import HasWall

# Distance from the end of the wall at which it turns.
_MARGIN = 0.1


class UMazeGuide(Component):
    """Expert that walks to the goal, around the end of the wall if it is in the way.

    Reads ``observation`` and ``desired_goal`` ``[N, 2]``. Writes ``action`` ``[N, 2]``.

    Args:
        environment: the maze.
    """

    reads = ("observation", "desired_goal")
    writes = ("action",)

    def __init__(self, *, environment: HasWall) -> None:
        super().__init__()
        # Not a submodule: the environment is a node of its own; only its walls are used here.
        object.__setattr__(self, "environment", environment)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the action."""
        point, goal = batch["observation"], batch["desired_goal"]
        corner = point.new_tensor([self.environment.wall + _MARGIN, 0.0])
        hidden = self.environment.blocked(point, goal)[:, None]
        away = torch.where(hidden, corner, goal) - point
        batch["action"] = (away / self.environment.stride).clamp(-1.0, 1.0)
        return batch

    def left(self, batch: TensorDict) -> Tensor:
        """Return the length of the path to the goal, ``[N]``."""
        left: Tensor = self.environment.way(batch["observation"], batch["desired_goal"])
        return left
