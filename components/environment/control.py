"""Environments of control by the names that gymnasium gives them."""

from __future__ import annotations

from torchrl.envs import EnvBase

from components.environment.cartpole import CartPole
from components.environment.gymnasium import gymnasium_environment
from components.environment.pendulum import Pendulum
from rlcomp.arguments import NonEmptyText, PositiveInt


def control_environment(*, name: NonEmptyText, num_envs: PositiveInt) -> EnvBase:
    """``num_envs`` copies of an environment, stepped in this process as one batch.

    ``Pendulum-v1`` and ``CartPole-v1`` are the same dynamics in torch, whose state is saved: a run
    on them is resumed to the bit, and needs no extra. Every other name is gymnasium's.

    Args:
        name: as gymnasium registers it.
        num_envs: how many copies.

    Raises:
        MissingExtra: gymnasium is not installed.
        ConfigError: gymnasium cannot make such an environment.
    """
    if name == "Pendulum-v1":
        return Pendulum(num_envs=num_envs)
    if name == "CartPole-v1":
        return CartPole(num_envs=num_envs)
    return gymnasium_environment(name=name, num_envs=num_envs)
