"""Base class of early stops: keep the best step of a phase by a held-out metric, end the phase."""

from __future__ import annotations

import math
from typing import Any, Literal

from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText
from rlcomp.component import Component
from rlcomp.errors import ConfigError, nearest
from rlcomp.metrics import end_phase, keep_best, measured, record


class EarlyStop(Component):
    """Early stop: ends the phase when :meth:`verdict` gives a reason, and keeps its best step.

    Stands in ``every`` of a phase, behind what measures: ``{evaluation: 25, early_stop: 1}``. The
    best step of a phase is that of the best value of ``metric`` so far, the first of equal ones; a
    checkpoint of it stays in ``checkpoints/best``. The weights go on from the last step;
    ``resume=RUN/checkpoints/best`` or ``base=RUN/checkpoints/best`` goes on from the best.

    Records ``early_stop/best``, the best value so far.

    Args:
        metric: what ``best`` is measured by: a metric of what runs before it in ``every``.
        better: which values are better.

    Raises:
        ConfigError: there are metrics of that concept, and ``metric`` is none of them.
    """

    def __init__(self, *, metric: NonEmptyText, better: Literal["higher", "lower"]) -> None:
        super().__init__()
        self.metric = metric
        self.better: Literal["higher", "lower"] = better
        self.state: dict[str, Any] = {}
        self.known: set[str] = set()

    def begin_phase(self) -> None:
        """Nothing is the best of a phase that starts."""
        self.state = {}

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Why the phase ends after this step; None if it goes on.

        Args:
            batch: of the step.
            value: of ``metric``; None where this step did not measure it.
        """
        raise NotImplementedError

    def forward(self, batch: TensorDict) -> TensorDict:
        """Look at what the step measured."""
        value = self.observed("metric", self.metric)
        reason = self.verdict(batch, value)
        if value is not None and self.beats(value, self.state.get("best")):
            self.state["best"] = value
            keep_best(metric=self.metric, better=self.better, value=value)
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

    def observed(self, argument: str, name: str) -> float | None:
        """A metric of this step; None where it was not measured, or is not finite."""
        found = measured()
        if name not in found and name not in self.known:
            beside = [other for other in found if other.split("/")[0] == name.split("/")[0]]
            beside = [other for other in beside if other != "early_stop/best"]
            if beside:
                raise ConfigError(
                    f"early_stop.{argument} is {name!r}, but this step measured "
                    f"{', '.join(beside)}{nearest(name, beside)}"
                )
        self.known.update(found)
        value = found.get(name)
        return value if value is not None and math.isfinite(value) else None

    def run_state(self) -> dict[str, Any]:
        """What was seen in this phase."""
        return {"state": self.state, "known": sorted(self.known)}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.state, self.known = dict(state["state"]), {*state["known"]}
