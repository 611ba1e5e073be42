"""Classic control environments: in torch, or from gymnasium."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torchrl.envs import (
    Compose,
    DoubleToFloat,
    EnvBase,
    GymWrapper,
    RewardSum,
    StepCounter,
    TransformedEnv,
)

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.errors import ConfigError, require
from rlcomp.interfaces.batched_environment import BatchedEnvironment, Randomises


class CartPole(BatchedEnvironment):
    """Pole on a cart that is pushed left or right: gymnasium's CartPole-v1, batched in torch.

    State and observation: position ``x`` (m), speed (m/s), angle (rad), angular speed (rad/s).
    Reward 1 per step; an episode ends when ``|x| > 2.4`` or the pole leans by more than 12 degrees.
    Steps of 0.02 s.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is truncated.
        randomise: draws ``gravity`` (m/s^2), the masses ``cart`` and ``pole`` (kg),
            ``half_length`` (m) and ``force`` (N) for each episode.

    Source:
        gymnasium 1.2, classic_control/cartpole.py; Barto, Sutton and Anderson 1983.
    """

    size = 4
    action = 2
    gravity, cart, pole, half_length = 9.8, 1.0, 0.1, 0.5
    force, seconds = 10.0, 0.02
    dynamics_names = ("gravity", "cart", "pole", "half_length", "force")
    max_position, max_angle = 2.4, 12 * 2 * math.pi / 360

    def __init__(
        self,
        *,
        num_envs: PositiveInt = 16,
        max_steps: PositiveInt = 500,
        randomise: Randomises | None = None,
    ) -> None:
        super().__init__(num_envs=num_envs, max_steps=max_steps, randomise=randomise)

    def begin(self) -> Tensor:
        """Draw every entry of the state from [-0.05, 0.05]."""
        return self.uniform(4, -0.05, 0.05)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take one Euler step."""
        position, speed, angle, spin = state.unbind(1)
        # The values are in the order of ``dynamics_names``.
        gravity, cart, pole, half_length, strength = self.dynamics.values()
        force = torch.where(action.view(-1) == 1, strength, -strength)
        mass, sine, cosine = cart + pole, angle.sin(), angle.cos()
        # This part of the cart's acceleration lacks the term of the pole's angular acceleration.
        partial = (force + pole * half_length * spin**2 * sine) / mass
        length = half_length * (4 / 3 - pole * cosine**2 / mass)
        angular_acceleration = (gravity * sine - cosine * partial) / length
        acceleration = partial - pole * half_length * angular_acceleration * cosine / mass
        derivative = torch.stack([speed, acceleration, spin, angular_acceleration], dim=1)
        after = state + self.seconds * derivative
        terminated = (after[:, 0].abs() > self.max_position) | (after[:, 2].abs() > self.max_angle)
        return after, torch.ones_like(position), terminated

    def observe(self, state: Tensor) -> Tensor:
        """Return the state."""
        return state.clone()


class Pendulum(BatchedEnvironment):
    """Pendulum with a weak motor: gymnasium's Pendulum-v1, batched in torch.

    ``th'' = 3 g / (2 l) sin th + 3 u / (m l^2)``, ``u`` in [-2, 2] N m, ``th = 0`` upright; reward
    ``-(th^2 + 0.1 th'^2 + 0.001 u^2)`` of the state before the step, ``th`` in [-pi, pi). Steps of
    0.05 s; ``|th'| <= 8``. Observation: ``cos th``, ``sin th``, ``th'``.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is truncated.
        randomise: draws ``gravity`` (m/s^2), ``mass`` (kg) and ``length`` (m) for each episode.

    Source:
        gymnasium 1.2, classic_control/pendulum.py.
    """

    size = 2
    action = (-2.0, 2.0)
    gravity, mass, length, seconds, max_speed = 10.0, 1.0, 1.0, 0.05, 8.0
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
        """Take one step, the angle by the new speed; an episode never terminates."""
        angle, speed = state.unbind(1)
        torque = action[:, 0].clamp(*self.action)
        wrapped_angle = (angle + math.pi) % (2 * math.pi) - math.pi
        reward = -(wrapped_angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
        # The values are in the order of ``dynamics_names``.
        gravity, mass, length = self.dynamics.values()
        acceleration = 3 * gravity / (2 * length) * angle.sin() + 3 / (mass * length**2) * torque
        speed = (speed + acceleration * self.seconds).clamp(-self.max_speed, self.max_speed)
        angle = angle + speed * self.seconds
        return torch.stack([angle, speed], 1), reward, torch.zeros_like(angle, dtype=torch.bool)

    def observe(self, state: Tensor) -> Tensor:
        """Return ``[cos th, sin th, th']``."""
        angle, speed = state.unbind(1)
        return torch.stack([angle.cos(), angle.sin(), speed], dim=1)


def gymnasium_environment(
    *, name: NonEmptyText = "CartPole-v1", num_envs: PositiveInt = 16
) -> EnvBase:
    """Return ``num_envs`` copies of an environment, stepped in this process as one batch.

    Reads ``action`` ``[num_envs]``. Writes ``observation`` and, under ``next``, ``observation`` and
    ``[num_envs, 1]`` each ``reward``, ``done``, ``terminated``, ``truncated``, ``step_count`` and
    ``episode_reward`` (sum of the episode's rewards so far).

    Args:
        name: gymnasium's name of the environment, e.g. ``CartPole-v1``.
        num_envs: number of copies; their seeds follow from the global generator's seed.

    Raises:
        MissingExtra: gymnasium is not installed.
        ConfigError: gymnasium has no such environment.
    """
    gymnasium = require("gymnasium", "envs")
    try:
        copies = gymnasium.make_vec(
            name,
            num_envs=num_envs,
            vectorization_mode="sync",
            # torchrl resets ended episodes itself and keeps the last observation of each.
            vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED},
        )
    except gymnasium.error.Error as error:
        raise ConfigError(f"name is {name!r}: {error}; set environment.name=...") from error
    wrapper = GymWrapper(copies, categorical_action_encoding=True)
    specs = wrapper.observation_spec.items(include_nested=True, leaves_only=True)
    double_keys = [key for key, spec in specs if spec.dtype == torch.float64]
    # MuJoCo's tasks return float64; networks compute in float32.
    casts = [DoubleToFloat(in_keys=double_keys)] if double_keys else []
    environment = TransformedEnv(wrapper, Compose(*casts, RewardSum(), StepCounter()))
    environment.set_seed(torch.initial_seed() % 2**31)
    return environment


def control_environment(
    *,
    name: NonEmptyText = "Pendulum-v1",
    num_envs: PositiveInt = 4,
    randomise: Randomises | None = None,
) -> EnvBase:
    """Return ``num_envs`` copies of an environment, stepped in this process as one batch.

    ``Pendulum-v1`` and ``CartPole-v1`` are :class:`Pendulum` and :class:`CartPole`: a run on them
    resumes bit by bit and needs no extra. Every other environment is gymnasium's.

    Args:
        name: gymnasium's name of the environment.
        num_envs: number of copies.
        randomise: distribution of the dynamics of each episode; only for Pendulum and CartPole.

    Raises:
        MissingExtra: gymnasium is not installed.
        ConfigError: gymnasium has no such environment, or its dynamics cannot be drawn.
    """
    if name == "Pendulum-v1":
        return Pendulum(num_envs=num_envs, randomise=randomise)
    if name == "CartPole-v1":
        return CartPole(num_envs=num_envs, randomise=randomise)
    if randomise is not None:
        raise ConfigError(
            f"environment.name is {name!r}, whose dynamics cannot be drawn: set Pendulum-v1 or "
            "CartPole-v1, or randomise=none"
        )
    return gymnasium_environment(name=name, num_envs=num_envs)
