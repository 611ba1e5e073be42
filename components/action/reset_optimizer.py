"""Optimiser without its past."""

from __future__ import annotations

from torch import nn

from rlcomp.interfaces.learner import KeepsMoments


class ResetOptimizer(nn.Module):
    """Forget an optimiser's moments: the phase begins as if its learner had never stepped.

    Args:
        learner: whose optimiser.
    """

    learner: KeepsMoments

    def __init__(self, *, learner: KeepsMoments) -> None:
        super().__init__()
        # Past nn.Module: the learner's tensors belong to the learner.
        object.__setattr__(self, "learner", learner)

    def begin_phase(self) -> None:
        """Clear the state."""
        self.learner.forget_moments()
