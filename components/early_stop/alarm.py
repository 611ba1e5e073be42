"""Early stop at an alarm: a recorded metric outside its range."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, NonNegativeInt, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.errors import ConfigError
from rlcomp.interfaces.early_stop import EarlyStop
from rlcomp.metrics import record


class Alarm(EarlyStop):
    """Early stop when ``watch`` is outside ``[low, high]`` ``patience`` times in a row.

    ``watch`` is any metric that a stage records, or an earlier entry of ``every``: the entropy of
    the policy, the share of truncated answers, a monitor's z. Steps that do not record it do not
    count. NaN is outside of every range.

    Records the metrics of :class:`EarlyStop` and ``early_stop/alarm``, the alarms in a row.

    Args:
        metric: the metric that chooses ``best``.
        better: which values are better.
        watch: the metric of the alarm.
        low: lowest value without alarm; null: none.
        high: highest value without alarm; null: none.
        patience: observations.

    Raises:
        ConfigError: neither ``low`` nor ``high`` is given, or ``low`` is above ``high``.
    """

    watches: ClassVar[tuple[str, ...]] = ("metric", "watch")

    def __init__(
        self,
        *,
        metric: NonEmptyText = "evaluation/sampled",
        better: Literal["higher", "lower"] = "higher",
        watch: NonEmptyText = "policy/entropy",
        low: float | None = None,
        high: float | None = None,
        patience: PositiveInt = 5,
    ) -> None:
        super().__init__(metric=metric, better=better)
        if low is None and high is None:
            raise ConfigError(f"Alarm: low and high of {watch} are null: set one of them")
        if low is not None and high is not None and low > high:
            raise ConfigError(f"Alarm: low is {low:g}, above high, {high:g}: swap them")
        self.watch = watch
        self.low = low
        self.high = high
        self.patience = patience

    def check_seen(self, seen: dict[str, Any]) -> None:
        """Check the number of alarms in a row."""
        if "row" in seen:
            field(seen, "row", NonNegativeInt)

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Count the alarms in a row."""
        del batch, value
        now = self.observed("watch")
        if now is None:
            return None
        outside = self._outside(now)
        row = self.state.get("row", 0) + 1 if outside else 0
        self.state["row"] = row
        record("early_stop/alarm", row)
        if row < self.patience:
            return None
        return f"alarm: {self.watch} was {outside} {row} times in a row, {now:.4g} at last"

    def _outside(self, now: float) -> str:
        """Return how a value lies outside the range; an empty text if it is inside."""
        if math.isnan(now):
            return "not a number"
        if self.low is not None and now < self.low:
            return f"below {self.low:g}"
        if self.high is not None and now > self.high:
            return f"above {self.high:g}"
        return ""
