"""Counter of optimiser steps that are skipped because they are not finite."""

from __future__ import annotations

from torch import nn

from rlcomp.arguments import Checked, PositiveInt


class SkipNonFinite(nn.Module, metaclass=Checked):
    """Counter of consecutive optimiser steps whose loss or gradient is NaN or infinite.

    The learner does not take such a step: parameters, optimiser, random streams and the state of
    its losses stay unchanged. It records the number of such steps as ``learner/non_finite``, and
    stops the run at the ``limit``-th consecutive one. A checkpoint holds the count.

    Args:
        limit: number of consecutive skipped steps that stops the run.

    Source:
        Micikevicius et al. 2018, arXiv:1710.03740, section 3.2 (dynamic loss scaling).
    """

    begins_anew = True  # A checkpoint without its state starts with a count of 0.

    def __init__(self, *, limit: PositiveInt = 3) -> None:
        super().__init__()
        self.limit = limit
        self.in_a_row = 0

    def count_skip(self) -> bool:
        """Count a skipped step; return whether the run must stop."""
        self.in_a_row += 1
        return self.in_a_row >= self.limit

    def reset(self) -> None:
        """Reset the count after a finite step."""
        self.in_a_row = 0

    def run_state(self) -> dict[str, object]:
        """Return the number of consecutive skipped steps, ``in_a_row``."""
        return {"in_a_row": self.in_a_row}

    def load_run_state(self, state: dict[str, object]) -> None:
        """Restore the count."""
        self.in_a_row = int(str(state["in_a_row"]))
