"""Values of each objective before the update."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.metrics import record
from rlcomp.pareto.objective_critic import ObjectiveCritic


class ObjectiveValueEstimate(Component):
    """Stage that writes the values of each objective before the update.

    The advantages and the clip of the value loss use them. Reads ``tokens``, ``attention_mask``,
    ``response_mask`` ``[B, T]``, and the names of ``rewards`` if they are there already.

    Writes ``objective_values`` and ``old_objective_values`` ``[B, T, K]``, in units of the rewards,
    without gradient; 0 outside ``response_mask``.

    Records ``value/mean/<objective>``.

    Args:
        critic: a critic with a value for each objective.

    Raises:
        ConfigError: the critic and ``rewards`` have other objectives, or another order.
    """

    keys = {
        "objective_values": ("B T K", "float", "value of each objective, in the order of rewards"),
        "old_objective_values": ("B T K", "float", "objective_values before the update"),
    }
    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("objective_values", "old_objective_values")
    optional = ("rewards",)

    def __init__(self, *, critic: ObjectiveCritic) -> None:
        super().__init__()
        self.critic = critic

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the values."""
        self._check_names(batch)
        with torch.no_grad():
            values = self.critic.values(batch)
        for k, name in enumerate(self.critic.names):
            record(f"value/mean/{name}", values[..., k], where=batch["response_mask"])
        batch["objective_values"], batch["old_objective_values"] = values, values.clone()
        return batch

    def _check_names(self, batch: TensorDict) -> None:
        names = tuple(batch["rewards"].keys()) if "rewards" in batch.keys() else self.critic.names
        if names != self.critic.names:
            raise ConfigError(
                f"the critic has values for {', '.join(self.critic.names)}, but 'rewards' holds "
                f"{', '.join(names)}: critic.objectives must be the stage that writes 'rewards'"
            )
