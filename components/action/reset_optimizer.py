"""Reset of an optimiser's state."""

from __future__ import annotations

from torch import nn

from rlcomp.interfaces.learner import KeepsMoments


class ResetOptimizer(nn.Module):
    """Action that clears an optimiser's moments, as if its learner had never stepped.

    Args:
        learner: the learner whose optimiser is reset.
    """

    learner: KeepsMoments

    def __init__(self, *, learner: KeepsMoments) -> None:
        super().__init__()
        # Not a submodule: the learner owns its tensors.
        object.__setattr__(self, "learner", learner)

    def begin_phase(self) -> None:
        """Clear the state."""
        self.learner.forget_moments()
