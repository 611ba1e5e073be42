"""Early stop at a plateau of a held-out metric."""

from __future__ import annotations

from typing import Any, Literal

from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, NonNegativeFloat, NonNegativeInt, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.interfaces.early_stop import EarlyStop
from rlcomp.metrics import record


class Plateau(EarlyStop):
    """Early stop when a held-out metric has not improved for ``patience`` evaluations.

    An evaluation improves if it is better by more than ``min_delta`` than the last one that
    improved. The phase ends after ``patience`` evaluations without an improvement.

    Records the metrics of :class:`EarlyStop` and ``early_stop/waited``, the evaluations since the
    last improvement.

    Args:
        metric: the held-out metric; it also chooses ``best``.
        better: which values are better.
        patience: evaluations.
        min_delta: smallest improvement, in units of the metric.

    Source:
        Goodfellow, Bengio & Courville 2016, "Deep Learning", algorithm 7.1 (``patience``).
    """

    def __init__(
        self,
        *,
        metric: NonEmptyText = "evaluation/sampled",
        better: Literal["higher", "lower"] = "higher",
        patience: PositiveInt = 3,
        min_delta: NonNegativeFloat = 0.0,
    ) -> None:
        super().__init__(metric=metric, better=better)
        self.patience = patience
        self.min_delta = min_delta

    def check_seen(self, seen: dict[str, Any]) -> None:
        """Check the value to beat and the number of evaluations since then."""
        if seen:
            field(seen, "mark", float)
            field(seen, "waited", NonNegativeInt)

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Count the evaluations without an improvement."""
        del batch
        if value is None:
            return None
        if self.beats(value, self.state.get("mark"), by=self.min_delta):
            self.state |= {"mark": value, "waited": 0}
        else:
            self.state["waited"] += 1
        waited = self.state["waited"]
        record("early_stop/waited", waited)
        if waited < self.patience:
            return None
        by = f" by more than {self.min_delta:g}" if self.min_delta else ""
        return (
            f"plateau: {self.metric} was not {self.better} than {self.state['mark']:.4g}{by} in "
            f"{waited} evaluations"
        )
