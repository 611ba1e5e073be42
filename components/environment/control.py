"""Environments of control by their names in gymnasium."""

from __future__ import annotations

from torchrl.envs import EnvBase

from components.environment.cartpole import CartPole
from components.environment.gymnasium import gymnasium_environment
from components.environment.pendulum import Pendulum
from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.dynamics import Randomises


def control_environment(
    *,
    name: NonEmptyText = "Pendulum-v1",
    num_envs: PositiveInt = 4,
    randomise: Randomises | None = None,
) -> EnvBase:
    """Return ``num_envs`` copies of an environment, stepped in this process as one batch.

    ``Pendulum-v1`` and ``CartPole-v1`` are reimplemented in torch and their state is saved: a run
    on them resumes bit by bit and needs no extra. Every other name is made by gymnasium.

    Args:
        name: gymnasium's name of the environment.
        num_envs: number of copies.
        randomise: distribution of the dynamics of each episode; for the two in torch only.

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
            f"environment.name is {name!r}, of gymnasium, whose dynamics cannot be drawn: take "
            "Pendulum-v1 or CartPole-v1, which are in torch, or randomise=none"
        )
    return gymnasium_environment(name=name, num_envs=num_envs)
