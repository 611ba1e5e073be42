"""Priority update of a prioritised replay by the latest errors."""

from __future__ import annotations

from tensordict import TensorDict

from components.replay.prioritized import PrioritizedReplay
from rlcomp.component import Component
from rlcomp.interfaces.holds_objective import TellsErrors
from rlcomp.metrics import record


class Reprioritise(Component):
    """Stage that passes the errors of a loss's last rows to a prioritised replay.

    It comes after the learner. Records ``replay/error``, the mean error in reward units.

    Args:
        loss: the loss with the errors.
        replay: the replay of the rows.
    """

    def __init__(self, *, loss: TellsErrors, replay: PrioritizedReplay) -> None:
        super().__init__()
        # Not submodules: both are nodes of their own.
        object.__setattr__(self, "loss", loss)
        self.replay = replay

    def forward(self, batch: TensorDict) -> TensorDict:
        """Pass the errors on, if the loss has computed any."""
        if self.loss.errors is not None:
            index, error = self.loss.errors
            self.replay.reprioritise(index, error)
            record("replay/error", error)
        return batch
