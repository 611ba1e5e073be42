"""Detectors of abnormal optimiser steps: numbers that are not finite, and gradient spikes."""

from __future__ import annotations

import logging
import statistics
from typing import Annotated, Any, Literal

from annotated_types import Gt
from torch import nn

from rlcomp.arguments import Checked, NonNegativeFloat, PositiveInt
from rlcomp.checkpoint.state_fields import count_field, field
from rlcomp.metrics import step

_LOG = logging.getLogger(__name__)


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
        """Restore the count.

        Raises:
            CheckpointError: the count is missing or no integer of at least 0.
        """
        self.in_a_row = count_field(state, "in_a_row")


class MedianSpike(nn.Module, metaclass=Checked):
    """Detector of gradient spikes: ``||g|| > factor * median(||g_1||, ..., ||g_W||)``.

    ``||g||`` is the norm of a step's gradient before clipping, and ``||g_1||`` to ``||g_W||`` are
    the norms of the last ``W = window`` steps. The first ``window`` steps are no spikes. Steps with
    a norm of 0 do not count. A spike enters the window, so that a lasting change of scale changes
    the median. The learner records the number of spikes as ``learner/gradient_spikes``.

    Args:
        factor: largest ratio of a norm to the median that is no spike.
        window: ``W``, in optimiser steps.
        action: action at a spike. ``count``: the metric alone. ``warn``: also a warning on the
            console. ``skip``: also skip the optimiser step.

    Source:
        This project.
    """

    begins_anew = True  # A checkpoint without its state starts with an empty window.

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
        is_full = len(self.norms) == self.window
        median = statistics.median(self.norms) if is_full else float("inf")
        self.norms = [*self.norms, norm][-self.window :]
        spike = norm > self.factor * median
        if spike and self.action != "count":
            outcome = "skipped" if self.action == "skip" else "taken, with clipping if it is set"
            _LOG.warning(
                "step %d: the gradient norm %.3g is %.3g times its median, more than factor=%g: "
                "the optimiser step is %s; if this is frequent, lower the learning rate",
                step() + 1,
                norm,
                norm / median,
                self.factor,
                outcome,
            )
        return spike

    def run_state(self) -> dict[str, object]:
        """Return the norms in the window, ``norms``."""
        return {"norms": self.norms}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the norms in the window.

        Raises:
            CheckpointError: the norms are missing or no numbers of at least 0.
        """
        norms = field(state, "norms", list[NonNegativeFloat])
        self.norms = [float(norm) for norm in norms][-self.window :]
