"""Early stop at reward hacking: the gap has grown and the true reward has fallen."""

from __future__ import annotations

from typing import ClassVar, Literal

from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText
from rlcomp.interfaces.early_stop import EarlyStop


class RewardHacking(EarlyStop):
    """Early stop: the proxy has risen above the true reward, and the true reward has fallen.

    Ends the phase after a step with ``gap_z > gap_above`` and ``true_z < fall_below``. The gap
    alone also grows where the proxy is lenient and rises faster; a fall alone is no hacking.

    Records what :class:`EarlyStop` does.

    Args:
        metric: what ``best`` is measured by; of the monitor, so that no proxy says what is best.
        better: which values are better.
        gap: z of the gap against the first audits.
        fall: z of the true reward against its best window.
        gap_above: standard deviations.
        fall_below: standard deviations.
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
        """Look at both tests."""
        del batch, value
        gap, fall = self.observed("gap"), self.observed("fall")
        if gap is None or fall is None or gap <= self.gap_above or fall >= self.fall_below:
            return None
        return (
            f"reward hacking: {self.gap} is {gap:.4g}, above {self.gap_above:g}, and {self.fall} "
            f"{fall:.4g}, below {self.fall_below:g}"
        )
