"""Base class of early stops: keep the best step of a phase by a held-out metric, end the phase."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText
from rlcomp.checkpoint.state_fields import field, names
from rlcomp.component import Component
from rlcomp.errors import RlcompWarning, nearest
from rlcomp.metrics import end_phase, keep_best, measured, record


class EarlyStop(Component):
    """Early stop: ends the phase when :meth:`verdict` gives a reason, and keeps its best step.

    Stands in ``every`` of a phase, behind what measures: ``{evaluation: 25, early_stop: 1}``. The
    best step of a phase is that of the best value of ``metric`` so far, the first of equal ones; a
    checkpoint of it stays in ``checkpoints/best``. The weights go on from the last step;
    ``resume=RUN/checkpoints/best`` or ``base=RUN/checkpoints/best`` goes on from the best.

    A step need not measure the metric. A metric that no step of the phase has measured is told by a
    warning when the phase ends, and where the first others of its concept are measured.

    Records ``early_stop/best``, the best value so far.

    Args:
        metric: what ``best`` is measured by: a metric of what runs before it in ``every``.
        better: which values are better.
    """

    watches: ClassVar[tuple[str, ...]] = ("metric",)
    # Both count for the best of a phase, and its metrics would be means over both.
    exclusive = "early_stop"
    # Who goes on from the best checkpoint may do so without the stop.
    begins_anew = True

    def __init__(self, *, metric: NonEmptyText, better: Literal["higher", "lower"]) -> None:
        super().__init__()
        self.metric = metric
        self.better: Literal["higher", "lower"] = better
        self.state: dict[str, Any] = {}
        self.known: set[str] = set()

    def begin_phase(self) -> None:
        """Nothing is the best of a phase that starts."""
        self.state, self.known = {}, set()

    def finish_phase(self) -> None:
        """What the end of the phase made due behind it counts for the best as well."""
        found = measured()
        self.known.update(found)
        self._keep(found.get(self.metric))
        for argument in self.watches:
            if getattr(self, argument) not in self.known:
                self._missed(argument, self.known, "no step of the phase has")

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Why the phase ends after this step; None if it goes on.

        Args:
            batch: of the step.
            value: of ``metric``; None where this step did not measure it.
        """
        raise NotImplementedError

    def forward(self, batch: TensorDict) -> TensorDict:
        """Look at what the step measured."""
        value = self.observed("metric")
        value = value if value is not None and math.isfinite(value) else None
        reason = self.verdict(batch, value)
        self.known.update(measured())
        self._keep(value)
        if "best" in self.state:
            record("early_stop/best", self.state["best"])
        if reason is not None:
            end_phase(reason)
        return batch

    def beats(self, value: float, best: float | None, by: float = 0.0) -> bool:
        """Whether a value is better than the best one so far by more than ``by``."""
        if best is None:
            return True
        return value > best + by if self.better == "higher" else value < best - by

    def observed(self, argument: str) -> float | None:
        """The metric that an argument names; None where this step has not measured it."""
        name, found = getattr(self, argument), measured()
        beside = {other for other in found if other.split("/")[0] == name.split("/")[0]}
        if beside and name not in beside and not self.known & {name, *beside}:
            self._missed(
                argument, found, f"the first step with any {name.split('/')[0]}/... has not"
            )
        return found.get(name)

    def _keep(self, value: float | None) -> None:
        if value is not None and math.isfinite(value) and self.beats(value, self.state.get("best")):
            self.state["best"] = value
            keep_best(metric=self.metric, better=self.better, value=value)

    def _missed(self, argument: str, known: Iterable[str], who: str) -> None:
        """Say that a metric is missing, with the one that may be meant."""
        name = getattr(self, argument)
        own = [other for other in known if not other.startswith(("early_stop/", "time/"))]
        beside = [other for other in own if other.split("/")[0] == name.split("/")[0]]
        told = f"early_stop.{argument} is {name!r}, but {who} measured it"
        warnings.warn(f"{told}{nearest(name, beside or own)}", RlcompWarning, stacklevel=3)

    def run_state(self) -> dict[str, Any]:
        """What was seen in this phase."""
        measure = {"metric": self.metric, "better": self.better}
        return {**measure, "state": self.state, "known": sorted(self.known)}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore it; what was the best by another measure is compared with nothing."""
        names(state, ("metric", "better", "state", "known"))
        known, seen = field(state, "known", list[str]), field(state, "state", dict)
        measure = (field(state, "metric", str), field(state, "better", str))
        if measure == (self.metric, self.better):
            if "best" in seen:
                field(seen, "best", float)
            self.check_seen(seen)
            self.state = dict(seen)
        self.known = {*known}

    def check_seen(self, seen: dict[str, Any]) -> None:
        """Check what was seen, beside the best value, once it comes out of a checkpoint.

        Args:
            seen: the ``state`` of a run that was saved.

        Raises:
            CheckpointError: it is not what :meth:`verdict` keeps there.
        """
