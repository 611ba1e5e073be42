"""torchrl's losses of demonstrations, without rewards."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.objectives.common import LossModule

from rlcomp.component import Component
from rlcomp.metrics import record


class DemonstrationLoss(Component):
    """Loss of torchrl, unchanged, on steps ``(s, a)`` whose actions are imitated.

    Reads ``observation`` and ``action``. Writes the scalars of the loss, and records each as
    ``loss/<name>``.

    Args:
        objective: constructor that gets the policy: a partial of ``torchrl.objectives.BCLoss``.
        policy: the trained policy.
    """

    reads = ("observation", "action")
    equation = "L = objective(pi(s), a*)"

    def __init__(
        self, *, objective: Callable[..., LossModule], policy: TensorDictModuleBase
    ) -> None:
        super().__init__()
        with warnings.catch_warnings():
            # torchrl warns about itself: BCLoss declares no target parameters and has none.
            warnings.filterwarnings("ignore", message="The name target_")
            self.objective = objective(policy)
        self.out_keys = list(self.objective.out_keys)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalars, in a new TensorDict."""
        values: TensorDict = self.objective(batch.select("observation", "action"))
        for key, value in values.items():
            record(f"loss/{key.removeprefix('loss_')}", torch.as_tensor(value).detach())
        return values
