"""Non-finite guard: skips optimiser steps that are not finite; stops after several in a row."""

from __future__ import annotations

from torch import nn

from rlcomp.arguments import Checked, PositiveInt


class SkipNonFinite(nn.Module, metaclass=Checked):
    """Non-finite guard: a step whose loss or gradient is NaN or infinite is not taken.

    The learner leaves parameters, optimiser, random streams and the state of its losses as they
    were before such a step, records ``learner/non_finite`` (how many), and stops the run at the
    ``limit``-th in a row. The count is saved with the run.

    Args:
        limit: skipped steps in a row that stop the run; 1: the first one does.

    Source:
        dynamic loss scaling, Micikevicius et al. 2018, arXiv:1710.03740, section 3.2: skip the
        update.
    """

    begins_anew = True  # checkpoints without it: none in a row

    def __init__(self, *, limit: PositiveInt = 3) -> None:
        super().__init__()
        self.limit = limit
        self.in_a_row = 0

    def skipped(self) -> bool:
        """Count a skipped step; return whether the run must stop."""
        self.in_a_row += 1
        return self.in_a_row >= self.limit

    def taken(self) -> None:
        """Reset the count after a finite step."""
        self.in_a_row = 0

    def run_state(self) -> dict[str, object]:
        """Return the number of steps skipped in a row."""
        return {"in_a_row": self.in_a_row}

    def load_run_state(self, state: dict[str, object]) -> None:
        """Restore the count."""
        self.in_a_row = int(str(state["in_a_row"]))
