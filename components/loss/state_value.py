"""Squared error of a state value."""

from __future__ import annotations

from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase

from rlcomp.component import Component


class StateValueLoss(Component):
    """Squared error of a critic: ``L = mean (V(s) - G)^2``.

    Reads ``observation`` and ``value_target`` ``[N, 1]`` (written by torchrl's estimators). Writes
    the scalar ``loss_value``, in squared reward units.

    Args:
        critic: the trained critic; writes ``state_value`` ``[N, 1]``.
    """

    reads = ("observation", "value_target")
    equation = "L = mean (V(s) - G)^2"

    def __init__(self, *, critic: TensorDictModuleBase) -> None:
        super().__init__()
        self.critic = critic
        self.out_keys = ["loss_value"]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the loss, in a new TensorDict."""
        value = self.critic(batch.select("observation"))["state_value"]
        error = (value - batch["value_target"]).square()
        return TensorDict({"loss_value": error.mean()}, batch_size=[])
