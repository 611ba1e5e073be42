"""Critic with a value for each objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tensordict import TensorDict
from transformers import PreTrainedModel

from rlcomp.checkpoint.state_fields import field
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.errors import CheckpointError
from rlcomp.keys import Key, OwnKey
from rlcomp.model.critics import Critic, ValueHead
from rlcomp.pareto.objectives import as_multi_objective


class ObjectiveCritic(Critic):
    """Separate critic with a value head for each objective on one backbone.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``.

    Writes ``objective_values`` ``[B, T, K]``, in units of the rewards, in the order of ``names``.

    Args:
        model: a causal model of transformers; stays unchanged.
        objectives: the stage with several objectives; defines their names.
        engine: computes the backbone.

    Heads are identified by position, so that a checkpoint holds the names.

    Raises:
        ConfigError: there is only one objective.
        CheckpointError: a checkpoint's heads have other objectives, or another order.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "objective_values": ("B T K", "float", "value of each objective, in the order of rewards"),
    }
    writes = ("objective_values",)

    def __init__(
        self, *, model: PreTrainedModel, objectives: object, engine: Engine = AUTO
    ) -> None:
        super().__init__(model=model, engine=engine)
        self.names = as_multi_objective(objectives, "take value=critic").names
        self.value_head = ValueHead(model, objectives=len(self.names))

    def run_state(self) -> dict[str, list[str]]:
        """Return the objectives of the heads, in order."""
        return {"objectives": list(self.names)}

    def load_run_state(self, state: dict[str, list[str]]) -> None:
        """Refuse heads of other objectives."""
        names = field(state, "objectives", list[str])
        if tuple(names) != self.names:
            raise CheckpointError(
                f"the critic's value heads are of {', '.join(names)} in the checkpoint, of "
                f"{', '.join(self.names)} here: give the objectives in the checkpoint's order, or "
                "choose another directory"
            )

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the values, with gradient where gradients are on."""
        batch["objective_values"] = self.values(batch)
        return batch
