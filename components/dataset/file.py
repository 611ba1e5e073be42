"""Steps of control from a file: the data of offline learning."""

from __future__ import annotations

from typing import ClassVar

from tensordict import TensorDict
from torchrl.envs import EnvBase

from rlcomp.arguments import NonEmptyText
from rlcomp.component import Component
from rlcomp.data.transitions import read_transitions
from rlcomp.errors import ConfigError
from rlcomp.metrics import record
from rlcomp.model.continuous_control import bounded_actions
from rlcomp.model.control import observed_size


class TransitionFile(Component):
    """All steps of a file as one batch, for a replay.

    Reads nothing. Writes ``observation``, ``action`` and, under ``next``, ``observation``,
    ``reward``, ``done``, ``terminated`` and ``truncated``. Records ``dataset/steps`` and
    ``dataset/reward``, the mean of a step.

    Args:
        path: ``.jsonl``, ``.jsonl.gz``, ``.parquet``, ``.safetensors``, or a Minari folder
            (:mod:`rlcomp.data.transitions`).
        environment: what the steps are of: sizes are compared.

    Raises:
        DataError: the file cannot be read, or a step is malformed; names file and line.
        ConfigError: its steps are of another environment.
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
        sizes = {
            "observation": observed_size(environment),
            "action": int(bounded_actions(environment).shape[-1]),
        }
        for key, size in sizes.items():
            if self.steps[key].shape[1] != size:
                raise ConfigError(
                    f"dataset.path is {path!r}, whose '{key}' has {self.steps[key].shape[1]} "
                    f"numbers, but that of the environment has {size}: set environment.name to "
                    "the one that the steps are of"
                )

    def forward(self, batch: TensorDict) -> TensorDict:
        """The steps."""
        record("dataset/steps", float(len(self.steps)))
        record("dataset/reward", self.steps["next", "reward"])
        return self.steps.clone()
