"""Updates of target networks by torchrl's updaters."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDict
from torchrl.objectives.utils import TargetNetUpdater

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.interfaces.protocols import HoldsObjective


class TargetUpdate(Component):
    """Update of a loss's target networks: ``theta' <- (1 - tau) theta' + tau theta`` (soft).

    Reads and writes no key.

    Args:
        loss: the loss with networks and targets.
        updater: constructor that gets torchrl's loss: ``torchrl.objectives.SoftUpdate`` or
            ``HardUpdate``.
        every: number of calls per update.

    Source:
        Lillicrap et al. 2016, arXiv:1509.02971, algorithm 1 (soft); Mnih et al. 2015 (hard).
    """

    calls: torch.Tensor

    def __init__(
        self,
        *,
        loss: HoldsObjective,
        updater: Callable[..., TargetNetUpdater],
        every: PositiveInt = 1,
    ) -> None:
        super().__init__()
        # Not a submodule: the loss is a node of its own and owns the networks.
        object.__setattr__(self, "updater", updater(loss.objective))
        self.every = every
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Count the call; update the targets every ``every`` calls."""
        self.calls += 1
        if int(self.calls) % self.every == 0:
            self.updater.step()
        return batch
