"""Early stop at reward hacking: a larger gap and a lower true reward."""

from __future__ import annotations

from typing import ClassVar, Literal

from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText
from rlcomp.interfaces.early_stop import EarlyStop


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
