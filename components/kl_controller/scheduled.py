"""A price of KL that follows the run."""

from __future__ import annotations

from typing import Annotated, Literal

from rlcomp.arguments import Interval, NonNegativeFloat
from rlcomp.functional.kl_coefficient import between
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.metrics import progress

Share = Annotated[float, Interval(gt=0, le=1)]


class ScheduledKL(KLController):
    """From ``start * kl_coef`` to ``end * kl_coef`` over the first part of the phase, then flat.

    Args:
        kl_coef: the scale, in reward units per nat.
        start: beta at first, in units of ``kl_coef``.
        end: beta in the end, in units of ``kl_coef``.
        shape: of the way between.
        over: the share of the phase it takes.

    Source:
        Loshchilov & Hutter 2016, arXiv:1608.03983, eq. 5 (the cosine).
    """

    def __init__(
        self,
        *,
        kl_coef: NonNegativeFloat,
        start: NonNegativeFloat,
        end: NonNegativeFloat,
        shape: Literal["linear", "cosine"],
        over: Share,
    ) -> None:
        super().__init__(kl_coef=kl_coef)
        self.start = start
        self.end = end
        self.shape: Literal["linear", "cosine"] = shape
        self.over = over

    def coef(self) -> float:
        """The coefficient at this point of the phase."""
        share = between(self.start, self.end, progress() / self.over, self.shape)
        return float(self.kl_coef) * share
