"""Gradient spikes: norms far above their running median."""

from __future__ import annotations

import logging
import statistics
from typing import Annotated, Any, Literal

from annotated_types import Gt
from torch import nn

from rlcomp.arguments import Checked, NonNegativeFloat, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.metrics import step

_LOG = logging.getLogger(__name__)


class MedianSpike(nn.Module, metaclass=Checked):
    """Gradient spike: ``||g|| > factor * median`` of the norms of the last ``window`` steps.

    Norms before they are clipped. There is no verdict until ``window`` steps were seen; steps
    without a gradient (a norm of 0) do not count. A spike belongs to the window as well, so that a
    lasting change of scale becomes the median. The learner records ``learner/gradient_spikes`` (how
    many).

    Args:
        factor: how many medians a norm may have.
        window: optimiser steps.
        action: ``count`` only, ``warn`` on the console as well, or ``skip`` the step, too, which
            leaves everything as it was.

    Source:
        This project.
    """

    begins_anew = True  # checkpoints without it: no norm seen yet

    def __init__(
        self,
        *,
        factor: Annotated[float, Gt(1)] = 10.0,
        window: PositiveInt = 32,
        action: Literal["count", "warn", "skip"] = "count",
    ) -> None:
        super().__init__()
        self.factor = factor
        self.window = window
        self.action = action
        self.norms: list[float] = []

    def is_spike(self, norm: float) -> bool:
        """Return whether a gradient norm is a spike, and add it to the window."""
        if norm == 0:
            return False
        full = len(self.norms) == self.window
        median = statistics.median(self.norms) if full else float("inf")
        self.norms = [*self.norms, norm][-self.window :]
        spike = norm > self.factor * median
        if spike and self.action != "count":
            done = "skipped" if self.action == "skip" else "taken, clipped where there is a limit"
            _LOG.warning(
                "step %d: the gradient norm %.3g is %.3g times its median, more than factor=%g: "
                "the optimiser step is %s; where this comes often, lower the learning rate",
                step() + 1,
                norm,
                norm / median,
                self.factor,
                done,
            )
        return spike

    def run_state(self) -> dict[str, object]:
        """Return the norms of the window."""
        return {"norms": self.norms}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the window."""
        norms = field(state, "norms", list[NonNegativeFloat])
        self.norms = [float(norm) for norm in norms][-self.window :]
