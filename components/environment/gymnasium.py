"""Gymnasium environments, wrapped for torchrl."""

from __future__ import annotations

import torch
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


def gymnasium_environment(
    *, name: NonEmptyText = "CartPole-v1", num_envs: PositiveInt = 16
) -> EnvBase:
    """Return ``num_envs`` copies of an environment, stepped in this process as one batch.

    Reads ``action`` ``[num_envs]``. Writes ``observation`` and, under ``next``, ``observation`` and
    ``[num_envs, 1]`` each ``reward``, ``done``, ``terminated``, ``truncated``, ``step_count`` and
    ``episode_reward`` (the rewards since the episode's start, summed).

    Args:
        name: gymnasium's name of the environment, e.g. ``CartPole-v1``.
        num_envs: number of copies; seeded one after the other from the global generator's seed.

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
    wrapped = GymWrapper(copies, categorical_action_encoding=True)
    specs = wrapped.observation_spec.items(include_nested=True, leaves_only=True)
    wide = [key for key, spec in specs if spec.dtype == torch.float64]
    # MuJoCo's tasks return float64; networks compute in float32.
    narrowed = [DoubleToFloat(in_keys=wide)] if wide else []
    environment = TransformedEnv(wrapped, Compose(*narrowed, RewardSum(), StepCounter()))
    environment.set_seed(torch.initial_seed() % 2**31)
    return environment
