"""Reasons to end a phase early."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from tensordict import TensorDict

from rlcomp.arguments import (
    NonEmptyText,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from rlcomp.checkpoint.state_fields import field
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.functional.divergence import kl_estimate
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


class KLBudget(EarlyStop):
    """Early stop when the KL of the policy to its reference exceeds ``budget`` nats.

    ``KL = mean of log pi_old - log pi_ref`` (k1) over the response tokens of a step, or the mean of
    its sums over responses. The phase ends when the mean of the last ``window`` steps is above
    ``budget``.

    Reads ``old_log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``. Records the metrics of
    :class:`EarlyStop` and ``early_stop/kl``, the mean of the window.

    Args:
        metric: the metric that chooses ``best``.
        better: which values are better.
        budget: nats per token or per response, by ``unit``.
        unit: ``"token"`` or ``"sequence"``: the KL is a mean over tokens or over responses.
        window: steps.

    Source:
        Gao et al. 2023, arXiv:2210.10760: the KL as the budget for optimising a proxy.
    """

    reads = ("old_log_probs", "ref_log_probs", "response_mask")

    def __init__(
        self,
        *,
        metric: NonEmptyText = "evaluation/sampled",
        better: Literal["higher", "lower"] = "higher",
        budget: PositiveFloat = 5.0,
        unit: Literal["token", "sequence"] = "sequence",
        window: PositiveInt = 5,
    ) -> None:
        super().__init__(metric=metric, better=better)
        self.budget = budget
        self.unit: Literal["token", "sequence"] = unit
        self.window = window

    def check_seen(self, seen: dict[str, Any]) -> None:
        """Check the KL of the last steps; it may be infinite or NaN."""
        for value in field(seen, "kl", list[object]) if "kl" in seen else ():
            if not isinstance(value, float):
                raise CheckpointError(f"'kl' has {value!r:.60} in it: must be numbers")

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Measure the KL of the step and compare the mean with the budget."""
        del value
        mask = batch["response_mask"]
        kl = kl_estimate(batch["old_log_probs"], batch["ref_log_probs"], mask, "k1").double()
        count = mask.sum() if self.unit == "token" else mask.any(1).sum()
        steps = [*self.state.get("kl", []), float(kl.sum() / count.clamp(min=1))]
        self.state["kl"] = steps[-self.window :]
        mean = sum(self.state["kl"]) / len(self.state["kl"])
        record("early_stop/kl", mean)
        if len(steps) < self.window or mean <= self.budget:
            return None
        return (
            f"KL budget: {mean:.4g} nats a {self.unit} to the reference, over {self.window} steps; "
            f"the budget is {self.budget:g}"
        )


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


class RewardHacking(EarlyStop):
    """Early stop when the proxy rises above the true reward and the true reward falls.

    Ends the phase after a step with ``gap_z > gap_above`` and ``true_z < fall_below``. The gap also
    grows if a lenient proxy just rises faster, and a fall alone is no hacking, so both are needed.

    Records the metrics of :class:`EarlyStop`.

    Args:
        metric: the metric that chooses ``best``; one of the monitor, not of the proxy.
        better: which values are better.
        gap: metric of the gap's z against the first audits.
        fall: metric of the true reward's z against its best window.
        gap_above: threshold of the gap, in standard deviations.
        fall_below: threshold of the fall, in standard deviations.
    """

    watches: ClassVar[tuple[str, ...]] = ("metric", "gap", "fall")

    def __init__(
        self,
        *,
        metric: NonEmptyText = "hacking_monitor/true_window",
        better: Literal["higher", "lower"] = "higher",
        gap: NonEmptyText = "hacking_monitor/gap_z",
        fall: NonEmptyText = "hacking_monitor/true_z",
        gap_above: float = 4.0,
        fall_below: float = -2.0,
    ) -> None:
        super().__init__(metric=metric, better=better)
        self.gap = gap
        self.fall = fall
        self.gap_above = gap_above
        self.fall_below = fall_below

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Compare both metrics with their thresholds."""
        del batch, value
        gap, fall = self.observed("gap"), self.observed("fall")
        if gap is None or fall is None or gap <= self.gap_above or fall >= self.fall_below:
            return None
        return (
            f"reward hacking: {self.gap} is {gap:.4g}, above {self.gap_above:g}, and {self.fall} "
            f"{fall:.4g}, below {self.fall_below:g}"
        )
