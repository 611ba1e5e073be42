"""Labels of states with an expert's actions."""

from __future__ import annotations

from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import ExplorationType, set_exploration_type

from rlcomp.component import Component


class ExpertLabel(Component):
    """Stage that writes an expert's action for every state of the batch.

    ``action`` is unchanged. Reads ``observation``. Writes ``expert_action``.

    Args:
        policy: the expert, scripted or trained; a trained one takes its most likely action.

    Source:
        Ross, Gordon and Bagnell 2011, arXiv:1011.0686, algorithm 3.1.
    """

    reads = ("observation",)
    writes = ("expert_action",)

    def __init__(self, *, policy: TensorDictModuleBase) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the expert's actions."""
        with set_exploration_type(ExplorationType.DETERMINISTIC):
            output = self.policy(batch.select("observation"))
        batch["expert_action"] = output["action"]
        return batch
