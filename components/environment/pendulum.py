"""Pendulum to swing up and keep upright."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.interfaces.batched_environment import BatchedEnvironment
from rlcomp.interfaces.dynamics import Randomises


class Pendulum(BatchedEnvironment):
    """Pendulum with a weak motor: gymnasium's Pendulum-v1, batched in torch.

    ``th'' = 3 g / (2 l) sin th + 3 u / (m l^2)``, ``u`` in [-2, 2] N m, ``th = 0`` upright; reward
    ``-(th^2 + 0.1 th'^2 + 0.001 u^2)`` of the state before the step, ``th`` in [-pi, pi). Steps of
    0.05 s; ``|th'| <= 8``. Observation: ``cos th``, ``sin th``, ``th'``.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is cut.
        randomise: draws ``gravity``, ``mass`` and ``length`` for each episode.

    Source:
        gymnasium 1.2, classic_control/pendulum.py.
    """

    size = 2
    observed = 3
    action = (-2.0, 2.0)
    gravity, mass, length, seconds, fastest = 10.0, 1.0, 1.0, 0.05, 8.0
    dynamics_names = ("gravity", "mass", "length")

    def __init__(
        self,
        *,
        num_envs: PositiveInt = 4,
        max_steps: PositiveInt = 200,
        randomise: Randomises | None = None,
    ) -> None:
        super().__init__(num_envs=num_envs, max_steps=max_steps, randomise=randomise)

    def begin(self) -> Tensor:
        """Draw any angle, and ``th'`` from [-1, 1]."""
        angle = self.uniform(1, -math.pi, math.pi)
        return torch.cat([angle, self.uniform(1, -1.0, 1.0)], dim=1)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take one Euler step; an episode never terminates."""
        angle, speed = state.unbind(1)
        torque = action[:, 0].clamp(*self.action)
        upright = (angle + math.pi) % (2 * math.pi) - math.pi
        reward = -(upright**2 + 0.1 * speed**2 + 0.001 * torque**2)
        gravity, mass, length = self.dynamics.values()
        pull = 3 * gravity / (2 * length) * angle.sin()
        push = 3 / (mass * length**2) * torque
        speed = (speed + (pull + push) * self.seconds).clamp(-self.fastest, self.fastest)
        angle = angle + speed * self.seconds
        return torch.stack([angle, speed], 1), reward, torch.zeros_like(angle, dtype=torch.bool)

    def observe(self, state: Tensor) -> Tensor:
        """Return ``[cos th, sin th, th']``."""
        angle, speed = state.unbind(1)
        return torch.stack([angle.cos(), angle.sin(), speed], dim=1)
