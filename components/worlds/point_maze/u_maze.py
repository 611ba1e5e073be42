"""U maze: a point and a goal on different sides of a wall."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from components.worlds.point_maze.reach import Reach
from rlcomp.arguments import MinLen, PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.batched_environment import Randomises

Corner = Annotated[list[float], MinLen(2)]


class UMaze(Reach):
    """Environment of a point in the square [-1, 1]^2 with a wall that is open at the right.

    ``x' = clip(x + stride a)``, ``a`` in [-1, 1]^2. The wall is the segment from (-1, 0) to
    (``wall``, 0). Only the component along the wall remains of a move that would cross it. Reward
    -1 per step, 0 if the point is within ``radius`` of the goal after it (:meth:`reward_of`). With
    ``ends`` the episode terminates there. Start and goal are drawn uniformly from boxes; a box may
    be one point.

    Observed: the point (``observation`` and ``achieved_goal``) and ``desired_goal``, ``[N, 2]``.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is cut.
        stride: largest move of a step, for each coordinate.
        radius: largest distance to the goal that counts as arrived.
        wall: end of the wall, in (-1, 1).
        ends: whether an episode terminates at its goal.
        start_low, start_high: corners of the box of starts, ``[x, y]``.
        goal_low, goal_high: corners of the box of goals.
        randomise: draws ``stride`` for each episode.

    Raises:
        ConfigError: the wall leaves no opening or has no length, or a box is empty or not within
            the square.

    Source:
        After the U maze of Fu et al. 2020, arXiv:2004.07219, without inertia and with a thin wall.
    """

    def __init__(
        self,
        *,
        num_envs: PositiveInt = 4,
        max_steps: PositiveInt = 50,
        stride: PositiveFloat = 0.15,
        radius: PositiveFloat = 0.15,
        wall: float = 0.5,
        ends: bool = True,
        start_low: Corner,
        start_high: Corner,
        goal_low: Corner,
        goal_high: Corner,
        randomise: Randomises | None = None,
    ) -> None:
        # set first: super().__init__ asks for the observations
        self.wall, self.ends = wall, ends
        if not -1 < wall < 1:
            raise ConfigError(f"wall is {wall:g}: it ends between -1 and 1, or there is no way")
        self.boxes = {
            "start": _box("start", start_low, start_high),
            "goal": _box("goal", goal_low, goal_high),
        }
        super().__init__(
            num_envs=num_envs,
            max_steps=max_steps,
            stride=stride,
            radius=radius,
            randomise=randomise,
        )

    def begin(self) -> Tensor:
        """Draw start and goal uniformly from their boxes."""
        drawn = [
            low + (high - low) * self.uniform(2, 0.0, 1.0) for low, high in self.boxes.values()
        ]
        return torch.cat(drawn, dim=1)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Make a move, only along the wall if it is in the way."""
        point, goal = state[:, :2], state[:, 2:]
        stride = torch.as_tensor(self.dynamics["stride"]).view(-1, 1)
        moved = (point + stride * action.clamp(-1.0, 1.0)).clamp(-1.0, 1.0)
        along = torch.stack([moved[:, 0], point[:, 1]], dim=1)
        moved = torch.where(self.blocked(point, moved)[:, None], along, moved)
        reward = self.reward_of(moved, goal)
        return torch.cat([moved, goal], dim=1), reward, (reward == 0) & self.ends

    def blocked(self, start: Tensor, end: Tensor) -> Tensor:
        """Return whether the wall is between two points, ``[N, 2]`` each; y = 0 is above it."""
        across = (start[:, 1] >= 0) != (end[:, 1] >= 0)
        share = start[:, 1] / torch.where(across, start[:, 1] - end[:, 1], 1.0)
        met = start[:, 0] + share * (end[:, 0] - start[:, 0])
        return across & (met < self.wall)

    def way(self, start: Tensor, end: Tensor) -> Tensor:
        """Return the length of the shortest path between two points around the wall, ``[N]``."""
        corner = start.new_tensor([self.wall, 0.0])
        around = (start - corner).norm(dim=1) + (corner - end).norm(dim=1)
        return torch.where(self.blocked(start, end), around, (start - end).norm(dim=1))


def _box(name: str, low: list[float], high: list[float]) -> tuple[Tensor, Tensor]:
    """Return the corners of a box as tensors ``[2]``."""
    if not all(len(corner) == 2 for corner in (low, high)) or not all(
        -1 <= least <= greatest <= 1 for least, greatest in zip(low, high, strict=True)
    ):
        raise ConfigError(
            f"{name}_low is {low}, {name}_high is {high}: they are the lower left and the upper "
            "right corner of a box in the square [-1, 1]^2"
        )
    return torch.tensor(low), torch.tensor(high)
