"""Base class of early stops, which keep the best step of a phase by a metric and end the phase."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText
from rlcomp.checkpoint.state_fields import check_fields, field
from rlcomp.component import Component
from rlcomp.errors import RlcompWarning, nearest
from rlcomp.metrics import current_means, end_phase, keep_best, record


class EarlyStop(Component):
    """Early stop: ends the phase when :meth:`verdict` returns a reason, and keeps its best step.

    Put it in ``every`` of a phase, after the stage that records the metric: ``{evaluation: 25,
    early_stop: 1}``. The best step of a phase is the first with the best value of ``metric`` so
    far; its checkpoint stays in ``checkpoints/best``. Training continues from the weights of the
    last step; use ``resume=RUN/checkpoints/best`` or ``base=RUN/checkpoints/best`` to continue from
    the best.

    A step need not record the metric. If no step of the phase has recorded it, a warning appears at
    the end of the phase, and in the first step that records other metrics of the same concept.

    Records ``early_stop/best``, the best value so far.

    Args:
        metric: name of the metric that decides the best step; a stage before this one in
            ``every`` records it.
        better: direction of better values.
    """

    watches: ClassVar[tuple[str, ...]] = ("metric",)
    # Two early stops would compete for the best step of a phase, and mix their metrics in one mean.
    exclusive = "early_stop"
    # A run from the best checkpoint may omit the stop.
    begins_anew = True

    def __init__(self, *, metric: NonEmptyText, better: Literal["higher", "lower"]) -> None:
        super().__init__()
        self.metric = metric
        self.better: Literal["higher", "lower"] = better
        # The best value (``best``), and what a subclass keeps, which :meth:`check_state` checks.
        self.state: dict[str, Any] = {}
        # Names of the metrics that steps of this phase have recorded.
        self.known: set[str] = set()

    def begin_phase(self) -> None:
        """Forget the best step of the previous phase."""
        self.state, self.known = {}, set()

    def finish_phase(self) -> None:
        """Include the metrics that later stages recorded; warn of a metric that never appeared."""
        metrics = current_means()
        self.known.update(metrics)
        self._keep_if_best(metrics.get(self.metric))
        for argument in self.watches:
            if getattr(self, argument) not in self.known:
                self._warn_missing(argument, self.known, "no step of the phase has")

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Return the reason to end the phase after this step; None to continue.

        The best value in ``state`` does not yet include this step's.

        Args:
            batch: batch of the step.
            value: value of ``metric``; None if this step did not measure it, or if it is not
                finite.
        """
        raise NotImplementedError

    def forward(self, batch: TensorDict) -> TensorDict:
        """Update with the metrics of the step."""
        value = self.metric_value("metric")
        value = value if value is not None and math.isfinite(value) else None
        reason = self.verdict(batch, value)
        self.known.update(current_means())
        self._keep_if_best(value)
        if "best" in self.state:
            record("early_stop/best", self.state["best"])
        if reason is not None:
            end_phase(reason)
        return batch

    def beats(self, value: float, best: float | None, by: float = 0.0) -> bool:
        """Test if a value is better than the best one so far by more than ``by``."""
        if best is None:
            return True
        return value > best + by if self.better == "higher" else value < best - by

    def metric_value(self, argument: str) -> float | None:
        """Return the metric that an argument names; None if this step has not measured it."""
        name, metrics = getattr(self, argument), current_means()
        of_concept = {other for other in metrics if other.split("/")[0] == name.split("/")[0]}
        if of_concept and name not in of_concept and not self.known & {name, *of_concept}:
            self._warn_missing(
                argument, metrics, f"the first step with any {name.split('/')[0]}/... has not"
            )
        return metrics.get(name)

    def _keep_if_best(self, value: float | None) -> None:
        if value is not None and math.isfinite(value) and self.beats(value, self.state.get("best")):
            self.state["best"] = value
            keep_best(metric=self.metric, better=self.better, value=value)

    def _warn_missing(self, argument: str, known: Iterable[str], subject: str) -> None:
        """Warn that a metric is missing, and suggest a similar one."""
        name = getattr(self, argument)
        candidates = [other for other in known if not other.startswith(("early_stop/", "time/"))]
        of_concept = [c for c in candidates if c.split("/")[0] == name.split("/")[0]]
        message = f"early_stop.{argument} is {name!r}, but {subject} measured it"
        warnings.warn(
            f"{message}{nearest(name, of_concept or candidates)}", RlcompWarning, stacklevel=3
        )

    def run_state(self) -> dict[str, Any]:
        """Return the state of this phase."""
        measure = {"metric": self.metric, "better": self.better}
        return {**measure, "state": self.state, "known": sorted(self.known)}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the state; for another ``metric`` or ``better`` only the known metrics."""
        check_fields(state, ("metric", "better", "state", "known"))
        known, progress = field(state, "known", list[str]), field(state, "state", dict)
        measure = (field(state, "metric", str), field(state, "better", str))
        if measure == (self.metric, self.better):
            if "best" in progress:
                field(progress, "best", float)
            self.check_state(progress)
            self.state = dict(progress)
        self.known = {*known}

    def check_state(self, state: dict[str, Any]) -> None:
        """Check the state from a checkpoint, except for the best value.

        Args:
            state: the ``state`` of a checkpoint.

        Raises:
            CheckpointError: the state does not come from :meth:`verdict`.
        """
