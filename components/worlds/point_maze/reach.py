"""Reach: a point that moves to a goal, with a reward only for arriving."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.arguments import PositiveFloat, PositiveInt
from rlcomp.interfaces.batched_environment import BatchedEnvironment, Randomises


class Reach(BatchedEnvironment):
    """Environment of a point in the square [-1, 1]^2 that must come within a radius of a goal.

    ``x' = clip(x + stride a)``, ``a`` in [-1, 1]^2. Reward -1 per step, 0 if the point is at the
    goal after it (:meth:`reward_of`). Point and goal are drawn uniformly. The episode continues at
    the goal, so that the point can stay there.

    Observed: the point (``observation`` and ``achieved_goal``) and ``desired_goal``, ``[N, 2]``.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is cut.
        stride: largest move of a step, for each coordinate.
        radius: largest distance to the goal that counts as arrived.
        randomise: draws ``stride`` for each episode.

    Source:
        After Plappert et al. 2018, arXiv:1802.09464 (FetchReach), without the arm.
    """

    size = 4
    action = (-1.0, 1.0)
    action_size = 2
    dynamics_names = ("stride",)

    def __init__(
        self,
        *,
        num_envs: PositiveInt = 16,
        max_steps: PositiveInt = 50,
        stride: PositiveFloat = 0.05,
        radius: PositiveFloat = 0.05,
        randomise: Randomises | None = None,
    ) -> None:
        # set first: super().__init__ asks for the observations
        self.stride, self.radius = stride, radius
        super().__init__(num_envs=num_envs, max_steps=max_steps, randomise=randomise)

    def begin(self) -> Tensor:
        """Draw point and goal uniformly."""
        return self.uniform(4, -1.0, 1.0)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Make a move; an episode never terminates."""
        point, goal = state[:, :2], state[:, 2:]
        stride = torch.as_tensor(self.dynamics["stride"]).view(-1, 1)
        point = (point + stride * action.clamp(-1.0, 1.0)).clamp(-1.0, 1.0)
        after = torch.cat([point, goal], dim=1)
        return after, self.reward_of(point, goal), torch.zeros(len(state), dtype=torch.bool)

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the reward of steps to these points with these goals, ``[N]``: -1 or 0."""
        away: Tensor = (achieved - desired).norm(dim=-1) > self.radius
        return -away.float()

    def observe(self, state: Tensor) -> Tensor:
        """Return the point."""
        return state[:, :2].clone()

    def seen(self, state: Tensor) -> dict[str, Tensor]:
        """Return the point as observation and achieved goal, and the desired goal."""
        point, goal = state[:, :2].clone(), state[:, 2:].clone()
        return {"observation": point, "achieved_goal": point.clone(), "desired_goal": goal}
