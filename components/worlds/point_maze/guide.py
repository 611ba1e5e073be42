"""Expert of the U maze."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.interfaces.batched_environment import HasWall

# Distance between the end of the wall and the point at which the expert turns.
_MARGIN = 0.1


class UMazeGuide(Component):
    """Expert that moves straight to the goal, or first to the end of a wall between them.

    Reads ``observation`` and ``desired_goal`` ``[N, 2]``. Writes ``action`` ``[N, 2]``.

    Args:
        environment: the maze.
    """

    reads = ("observation", "desired_goal")
    writes = ("action",)

    def __init__(self, *, environment: HasWall) -> None:
        super().__init__()
        # Bypass nn.Module, because the environment is another node's submodule.
        object.__setattr__(self, "environment", environment)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the action."""
        point, goal = batch["observation"], batch["desired_goal"]
        corner = point.new_tensor([self.environment.wall + _MARGIN, 0.0])
        is_blocked = self.environment.blocked(point, goal)[:, None]
        offset = torch.where(is_blocked, corner, goal) - point
        batch["action"] = (offset / self.environment.stride).clamp(-1.0, 1.0)
        return batch

    def distance_to_goal(self, batch: TensorDict) -> Tensor:
        """Return the length of the path to the goal, ``[N]``."""
        length: Tensor = self.environment.path_length(batch["observation"], batch["desired_goal"])
        return length
