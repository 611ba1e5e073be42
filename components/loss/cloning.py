"""Behaviour cloning by squared error."""

from __future__ import annotations

from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase

from rlcomp.component import Component


class CloningSquaredError(Component):
    """Behaviour cloning of a deterministic policy: ``L = mean_N sum_A (pi(s) - a*)^2``.

    Reads ``observation`` and ``expert_action``. Writes the scalar ``loss_cloning``.

    Args:
        policy: the trained policy; writes ``action``.

    Source:
        Pomerleau 1989 (ALVINN).
    """

    reads = ("observation", "expert_action")
    equation = "L = mean_N sum_A (pi(s) - a*)^2"

    def __init__(self, *, policy: TensorDictModuleBase) -> None:
        super().__init__()
        self.policy = policy
        self.out_keys = ["loss_cloning"]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the loss, in a new TensorDict."""
        action = self.policy(batch.select("observation"))["action"]
        error = (action - batch["expert_action"]).square().sum(-1)
        return TensorDict({"loss_cloning": error.mean()}, batch_size=[])
