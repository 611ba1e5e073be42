"""Offline data set of transitions from a file."""

from __future__ import annotations

from typing import ClassVar

from tensordict import TensorDict
from torch import Tensor
from torchrl.envs import EnvBase

from rlcomp.arguments import NonEmptyText
from rlcomp.component import Component
from rlcomp.data.transitions import read_transitions
from rlcomp.errors import ConfigError
from rlcomp.metrics import record
from rlcomp.model.control import bounded_actions, observed_size

# Tolerance as a share of the range of an action: float32, and clipping by a simulator.
_ROUNDING = 1e-4


class TransitionFile(Component):
    """Offline data set: the transitions ``(s, a, r, s', terminated)`` of a file as one batch.

    Reads nothing. Writes ``observation``, ``action`` and, under ``next``, ``observation``,
    ``reward``, ``done``, ``terminated`` and ``truncated``. Records ``dataset/steps`` and
    ``dataset/reward``, the mean reward of a step.

    Args:
        path: ``.jsonl``, ``.jsonl.gz``, ``.parquet``, ``.safetensors``, or a Minari folder
            (:mod:`rlcomp.data.transitions`).
        environment: the environment of the steps; its sizes and bounds are compared with the file.

    Raises:
        DataError: the file cannot be read, or a step is malformed; the message names file and line.
        ConfigError: the steps come from another environment: sizes differ, or an action lies
            outside the environment's bounds by more than rounding.
    """

    writes: ClassVar[tuple[str, ...]] = (
        *("observation", "action", "next.observation", "next.reward", "next.done"),
        *("next.terminated", "next.truncated"),
    )
    fresh = True

    def __init__(self, *, path: NonEmptyText, environment: EnvBase) -> None:
        super().__init__()
        self.path = path
        self.steps = read_transitions(path)
        actions = bounded_actions(environment)
        sizes = {"observation": observed_size(environment), "action": int(actions.shape[-1])}
        for key, size in sizes.items():
            if self.steps[key].shape[1] != size:
                raise ConfigError(
                    f"dataset.path is {path!r}, whose '{key}' has {self.steps[key].shape[1]} "
                    f"numbers, but the environment's {key} has {size}: set environment.name to "
                    "the environment of the steps"
                )
        self._check_bounds(actions.space.low, actions.space.high)

    def _check_bounds(self, low: Tensor, high: Tensor) -> None:
        """Refuse actions outside the bounds: a squashed policy gives them no likelihood."""
        actions, tolerance = self.steps["action"], _ROUNDING * (high - low)
        outside = ((actions < low - tolerance) | (actions > high + tolerance)).nonzero()
        if len(outside):
            step, i = outside[0].tolist()
            raise ConfigError(
                f"dataset.path is {self.path!r}, whose step {step} (from 0) has the action "
                f"{actions[step, i]:g}, but the environment's actions lie in [{low[i]:g}, "
                f"{high[i]:g}]: scale or clip the actions of the file"
            )

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the steps."""
        record("dataset/steps", float(len(self.steps)))
        record("dataset/reward", self.steps["next", "reward"])
        return self.steps.clone()
