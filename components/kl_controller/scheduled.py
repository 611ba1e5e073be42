"""Scheduled KL coefficient."""

from __future__ import annotations

from typing import Annotated, Literal

from rlcomp.arguments import Interval, NonNegativeFloat
from rlcomp.functional.kl_coefficient import between
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.metrics import progress

Share = Annotated[float, Interval(gt=0, le=1)]


class ScheduledKL(KLController):
    """KL coefficient on a linear or cosine schedule.

    From ``start * kl_coef`` to ``end * kl_coef`` over the share ``over`` of the phase, then
    constant.

    Args:
        kl_coef: the scale, in reward units per nat.
        start: initial beta, in units of ``kl_coef``.
        end: final beta, in units of ``kl_coef``.
        shape: shape of the schedule.
        over: share of the phase after which ``end`` is reached.

    Source:
        Loshchilov & Hutter 2016, arXiv:1608.03983, eq. 5 (the cosine).
    """

    def __init__(
        self,
        *,
        kl_coef: NonNegativeFloat = 0.001,
        start: NonNegativeFloat = 1.0,
        end: NonNegativeFloat = 0.0,
        shape: Literal["linear", "cosine"] = "linear",
        over: Share = 1.0,
    ) -> None:
        super().__init__(kl_coef=kl_coef)
        self.start = start
        self.end = end
        self.shape: Literal["linear", "cosine"] = shape
        self.over = over

    def coef(self) -> float:
        """Return the coefficient at this point of the phase."""
        share = between(self.start, self.end, progress() / self.over, self.shape)
        return float(self.kl_coef) * share
