"""Priority update of a prioritised replay: each row by the error of its last update."""

from __future__ import annotations

from tensordict import TensorDict

from components.replay.prioritized import PrioritizedReplay
from rlcomp.component import Component
from rlcomp.interfaces.holds_objective import TellsErrors
from rlcomp.metrics import record


class Reprioritise(Component):
    """Tells a prioritised replay the errors that a loss found in the rows it was given last.

    Records ``replay/error``: their mean, in reward units. Stands behind the learner.

    Args:
        loss: knows the errors.
        replay: the rows are of.
    """

    def __init__(self, *, loss: TellsErrors, replay: PrioritizedReplay) -> None:
        super().__init__()
        # Past nn.Module: both are nodes of their own.
        object.__setattr__(self, "loss", loss)
        self.replay = replay

    def forward(self, batch: TensorDict) -> TensorDict:
        """Hand the errors over; before the loss has seen a row there are none."""
        if self.loss.errors is not None:
            index, error = self.loss.errors
            self.replay.reprioritise(index, error)
            record("replay/error", error)
        return batch
