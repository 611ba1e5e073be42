"""Environment of a point and a goal on different sides of a wall."""

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

    ``x' = clip(x + stride a)``, with the point ``x`` and the action ``a`` in [-1, 1]^2. The wall is
    the segment from (-1, 0) to (``wall``, 0). A move that would cross the wall keeps only its
    component along the wall. The reward of a step is 0 if ``x'`` is within ``radius`` of the goal,
    else -1 (:meth:`reward_of`). With ``ends`` the episode terminates at the goal. Start and goal
    are drawn uniformly from boxes; a box may be one point.

    Observations: the point (``observation`` and ``achieved_goal``) and ``desired_goal``,
    ``[N, 2]`` each.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is cut.
        stride: largest move of a step, for each coordinate.
        radius: largest distance to the goal that counts as arrived.
        wall: end of the wall, in (-1, 1).
        ends: whether an episode terminates at its goal.
        start_low, start_high: lower left and upper right corner of the box of starts, ``[x, y]``.
        goal_low, goal_high: corners of the box of goals, ``[x, y]``.
        randomise: draws ``stride`` for each episode; None: ``stride`` is constant.

    Raises:
        ConfigError: ``wall`` is not in (-1, 1), or a box is empty or not within the square.

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
        # Set before super().__init__, which reads the observations.
        self.wall, self.ends = wall, ends
        if not -1 < wall < 1:
            raise ConfigError(f"wall is {wall:g}: must be greater than -1 and less than 1")
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
        """Draw starts and goals uniformly from their boxes; return ``[N, 4]``."""
        points = [
            low + (high - low) * self.uniform(2, 0.0, 1.0) for low, high in self.boxes.values()
        ]
        return torch.cat(points, dim=1)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states after a move, the rewards, and whether episodes terminate."""
        point, goal = state[:, :2], state[:, 2:]
        stride = torch.as_tensor(self.dynamics["stride"]).view(-1, 1)
        target = (point + stride * action.clamp(-1.0, 1.0)).clamp(-1.0, 1.0)
        along_wall = torch.stack([target[:, 0], point[:, 1]], dim=1)
        next_point = torch.where(self.blocked(point, target)[:, None], along_wall, target)
        reward = self.reward_of(next_point, goal)
        return torch.cat([next_point, goal], dim=1), reward, (reward == 0) & self.ends

    def blocked(self, start: Tensor, end: Tensor) -> Tensor:
        """Return whether the wall is between two points, ``[N]``.

        Args:
            start: first points, ``[N, 2]``. A point with y = 0 is above the wall.
            end: second points, ``[N, 2]``.
        """
        crosses_axis = (start[:, 1] >= 0) != (end[:, 1] >= 0)
        fraction = start[:, 1] / torch.where(crosses_axis, start[:, 1] - end[:, 1], 1.0)
        crossing = start[:, 0] + fraction * (end[:, 0] - start[:, 0])
        return crosses_axis & (crossing < self.wall)

    def path_length(self, start: Tensor, end: Tensor) -> Tensor:
        """Return the length of the shortest path between two points around the wall, ``[N]``."""
        corner = start.new_tensor([self.wall, 0.0])
        around = (start - corner).norm(dim=1) + (corner - end).norm(dim=1)
        return torch.where(self.blocked(start, end), around, (start - end).norm(dim=1))


def _box(name: str, low: list[float], high: list[float]) -> tuple[Tensor, Tensor]:
    """Check the corners of a box and return them as tensors ``[2]``."""
    if not all(len(corner) == 2 for corner in (low, high)) or not all(
        -1 <= lower <= upper <= 1 for lower, upper in zip(low, high, strict=True)
    ):
        raise ConfigError(
            f"{name}_low is {low}, {name}_high is {high}: must be the lower left and the upper "
            "right corner of a box in the square [-1, 1]^2"
        )
    return torch.tensor(low), torch.tensor(high)
