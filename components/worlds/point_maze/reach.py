"""Environment of a point that moves to a goal, with a reward only at the goal."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.arguments import PositiveFloat, PositiveInt
from rlcomp.interfaces.batched_environment import BatchedEnvironment, Randomises


class Reach(BatchedEnvironment):
    """Environment of a point in the square [-1, 1]^2 that must come within a radius of a goal.

    ``x' = clip(x + stride a)``, with the point ``x`` and the action ``a`` in [-1, 1]^2. The reward
    of a step is 0 if ``x'`` is within ``radius`` of the goal, else -1 (:meth:`reward_of`). Start
    and goal are drawn uniformly. The episode continues at the goal, so that the point can stay
    there.

    Observations: the point (``observation`` and ``achieved_goal``) and ``desired_goal``,
    ``[N, 2]`` each.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is cut.
        stride: largest move of a step, for each coordinate.
        radius: largest distance to the goal that counts as arrived.
        randomise: draws ``stride`` for each episode; None: ``stride`` is constant.

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
        # Set before super().__init__, which reads the observations.
        self.stride, self.radius = stride, radius
        super().__init__(num_envs=num_envs, max_steps=max_steps, randomise=randomise)

    def begin(self) -> Tensor:
        """Draw starts and goals uniformly; return ``[N, 4]``."""
        return self.uniform(4, -1.0, 1.0)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states after a move, the rewards, and False: an episode never terminates."""
        point, goal = state[:, :2], state[:, 2:]
        stride = torch.as_tensor(self.dynamics["stride"]).view(-1, 1)
        point = (point + stride * action.clamp(-1.0, 1.0)).clamp(-1.0, 1.0)
        next_state = torch.cat([point, goal], dim=1)
        return next_state, self.reward_of(point, goal), torch.zeros(len(state), dtype=torch.bool)

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the reward of steps to these points with these goals, ``[N]``: -1 or 0."""
        is_outside: Tensor = (achieved - desired).norm(dim=-1) > self.radius
        return -is_outside.float()

    def observe(self, state: Tensor) -> Tensor:
        """Return the points, ``[N, 2]``."""
        return state[:, :2].clone()

    def observations(self, state: Tensor) -> dict[str, Tensor]:
        """Return ``observation`` and ``achieved_goal``, the point, and ``desired_goal``."""
        point, goal = state[:, :2].clone(), state[:, 2:].clone()
        return {"observation": point, "achieved_goal": point.clone(), "desired_goal": goal}
