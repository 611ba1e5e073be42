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
    """Early stop when ``watch`` is outside ``[low, high]`` for ``patience`` successive values.

    ``watch`` is any metric that a stage or an earlier entry of ``every`` records, such as the
    entropy of the policy, the share of truncated answers, or the z score of a monitor. Steps that
    do not record it do not count. NaN is outside of every range.

    Records the metrics of :class:`EarlyStop` and ``early_stop/alarm``, the number of successive
    values outside the range.

    Args:
        metric: the metric that chooses the best step.
        better: whether ``higher`` or ``lower`` values of ``metric`` are better.
        watch: the metric whose range is checked.
        low: lowest value inside the range; null: no lower bound.
        high: highest value inside the range; null: no upper bound.
        patience: number of successive values outside the range that ends the phase.

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
            raise ConfigError(f"Alarm: low and high of {watch} are null: set at least one of them")
        if low is not None and high is not None and low > high:
            raise ConfigError(f"Alarm: low is {low:g}, above high, {high:g}: swap them")
        self.watch = watch
        self.low = low
        self.high = high
        self.patience = patience

    def check_state(self, state: dict[str, Any]) -> None:
        """Check the saved number of successive values outside the range."""
        if "row" in state:
            field(state, "row", NonNegativeInt)

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Return the reason to end the phase after ``patience`` values outside the range."""
        del batch, value
        observation = self.metric_value("watch")
        if observation is None:
            return None
        fault = self._fault(observation)
        successive = self.state.get("row", 0) + 1 if fault else 0
        self.state["row"] = successive  # values in a row
        record("early_stop/alarm", successive)
        if successive < self.patience:
            return None
        return (
            f"alarm: {self.watch} was {fault} {successive} times in a row, "
            f"{observation:.4g} at last"
        )

    def _fault(self, value: float) -> str:
        """Return the bound that a value violates, as text; empty if it is inside the range."""
        if math.isnan(value):
            return "not a number"
        if self.low is not None and value < self.low:
            return f"below {self.low:g}"
        if self.high is not None and value > self.high:
            return f"above {self.high:g}"
        return ""


class KLBudget(EarlyStop):
    """Early stop when the KL of the policy to its reference exceeds ``budget`` nats.

    ``KL`` is the mean of ``log pi_old - log pi_ref`` (k1) over the response tokens of a step, or
    the mean over responses of the sum over their tokens. A step without response tokens has 0. The
    phase ends when the mean of the last ``window`` steps is above ``budget``, and never before
    ``window`` steps.

    Reads ``old_log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``. Records the metrics of
    :class:`EarlyStop` and ``early_stop/kl``, the mean of the last ``window`` steps.

    Args:
        metric: the metric that chooses the best step.
        better: whether ``higher`` or ``lower`` values of ``metric`` are better.
        budget: largest KL, nats per token or per response.
        unit: unit of the KL: ``"token"``: mean over tokens; ``"sequence"``: mean over responses.
        window: number of steps over which the KL is averaged.

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

    def check_state(self, state: dict[str, Any]) -> None:
        """Check the saved KL of the last steps; it may be infinite or NaN."""
        for value in field(state, "kl", list[object]) if "kl" in state else ():
            if not isinstance(value, float):
                raise CheckpointError(f"'kl' holds {value!r:.60}: must be numbers")

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Return the reason to end the phase if the mean KL is above the budget."""
        del value
        mask = batch["response_mask"]
        kl = kl_estimate(batch["old_log_probs"], batch["ref_log_probs"], mask, "k1").double()
        count = mask.sum() if self.unit == "token" else mask.any(1).sum()
        values = [*self.state.get("kl", []), float(kl.sum() / count.clamp(min=1))]
        self.state["kl"] = values[-self.window :]
        mean = sum(self.state["kl"]) / len(self.state["kl"])
        record("early_stop/kl", mean)
        if len(values) < self.window or mean <= self.budget:
            return None
        return (
            f"KL budget: {mean:.4g} nats per {self.unit} to the reference, over {self.window} "
            f"steps; the budget is {self.budget:g}"
        )


class Plateau(EarlyStop):
    """Early stop when a held-out metric has not improved for ``patience`` evaluations.

    An evaluation is an improvement if its value is better by more than ``min_delta`` than the value
    of the last improvement. The phase ends after ``patience`` evaluations without an improvement.

    Records the metrics of :class:`EarlyStop` and ``early_stop/waited``, the number of evaluations
    since the last improvement.

    Args:
        metric: the held-out metric; it also chooses the best step.
        better: whether ``higher`` or ``lower`` values of ``metric`` are better.
        patience: number of evaluations without an improvement that ends the phase.
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

    def check_state(self, state: dict[str, Any]) -> None:
        """Check the saved value of the last improvement and the number of evaluations since."""
        if state:
            field(state, "mark", float)
            field(state, "waited", NonNegativeInt)

    def verdict(self, batch: TensorDict, value: float | None) -> str | None:
        """Return the reason to end the phase after ``patience`` evaluations."""
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
        margin = f" by more than {self.min_delta:g}" if self.min_delta else ""
        return (
            f"plateau: {self.metric} was not {self.better} than {self.state['mark']:.4g}{margin} "
            f"in {waited} evaluations"
        )


class RewardHacking(EarlyStop):
    """Early stop when the proxy rises above the true reward and the true reward falls.

    It ends the phase after a step with ``gap_z > gap_above`` and ``true_z < fall_below``. A large
    gap alone may come from a lenient proxy. A falling true reward alone is not reward hacking. NaN
    counts as beyond a threshold; a step without one of the two metrics does not end the phase.

    Records the metrics of :class:`EarlyStop`.

    Args:
        metric: the metric that chooses the best step; use a metric of the monitor, not of the
            proxy.
        better: whether ``higher`` or ``lower`` values of ``metric`` are better.
        gap: name of the metric ``gap_z``, the z score of the gap against the first audits.
        fall: name of the metric ``true_z``, the z score of the true reward against its best window.
        gap_above: threshold of ``gap_z``, in standard deviations.
        fall_below: threshold of ``true_z``, in standard deviations.
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
        """Return the reason to end the phase if both metrics are beyond their thresholds."""
        del batch, value
        gap, fall = self.metric_value("gap"), self.metric_value("fall")
        if gap is None or fall is None or gap <= self.gap_above or fall >= self.fall_below:
            return None
        return (
            f"reward hacking: {self.gap} is {gap:.4g}, above {self.gap_above:g}, and {self.fall} "
            f"{fall:.4g}, below {self.fall_below:g}"
        )
