"""CartPole: balance a pole on a cart."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.interfaces.batched_environment import BatchedEnvironment
from rlcomp.interfaces.dynamics import Randomises


class CartPole(BatchedEnvironment):
    """Pole on a cart that is pushed left or right: gymnasium's CartPole-v1, batched in torch.

    State and observation: position (m), speed, angle (rad), angular speed. Reward 1 per step; an
    episode ends when ``|x| > 2.4`` or the pole leans by more than 12 degrees. Steps of 0.02 s.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is cut.
        randomise: draws ``gravity``, the masses ``cart`` and ``pole`` (kg), ``half_length`` (m) and
            ``force`` (N) for each episode.

    Source:
        gymnasium 1.2, classic_control/cartpole.py; Barto, Sutton and Anderson 1983.
    """

    size = 4
    observed = 4
    action = 2
    gravity, cart, pole, half_length = 9.8, 1.0, 0.1, 0.5
    force, seconds = 10.0, 0.02
    dynamics_names = ("gravity", "cart", "pole", "half_length", "force")
    widest, steepest = 2.4, 12 * 2 * math.pi / 360

    def __init__(
        self,
        *,
        num_envs: PositiveInt = 16,
        max_steps: PositiveInt = 500,
        randomise: Randomises | None = None,
    ) -> None:
        super().__init__(num_envs=num_envs, max_steps=max_steps, randomise=randomise)

    def begin(self) -> Tensor:
        """Draw each part of the state from [-0.05, 0.05]."""
        return self.uniform(4, -0.05, 0.05)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take one Euler step."""
        place, speed, angle, turning = state.unbind(1)
        gravity, cart, pole, half_length, strength = self.dynamics.values()
        force = torch.where(action.view(-1) == 1, strength, -strength)
        mass, sine, cosine = cart + pole, angle.sin(), angle.cos()
        swing = (force + pole * half_length * turning**2 * sine) / mass
        inertia = half_length * (4 / 3 - pole * cosine**2 / mass)
        turned = (gravity * sine - cosine * swing) / inertia
        pushed = swing - pole * half_length * turned * cosine / mass
        after = torch.stack(
            [
                place + self.seconds * speed,
                speed + self.seconds * pushed,
                angle + self.seconds * turning,
                turning + self.seconds * turned,
            ],
            dim=1,
        )
        fallen = (after[:, 0].abs() > self.widest) | (after[:, 2].abs() > self.steepest)
        return after, torch.ones_like(place), fallen

    def observe(self, state: Tensor) -> Tensor:
        """Return the state."""
        return state.clone()
