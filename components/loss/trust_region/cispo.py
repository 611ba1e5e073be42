"""CISPO: the weight is clipped, the token is not."""

from __future__ import annotations

import math

from tensordict import TensorDict

from rlcomp.arguments import Fraction, NonNegativeFloat
from rlcomp.functional.masked import masked
from rlcomp.functional.surrogate import emptied, weighted_log_probs
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class Cispo(Part):
    """``sg[clip(ratio, 1 - clip_low, 1 + clip_high)] * advantage * log_probs``.

    Every token keeps a gradient; only its weight is bounded. The value of the surrogate is that of
    weighted log-probs and means nothing by itself.

    Reads ``log_probs``, ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes
    ``surrogate`` ``[B, T]``.

    Args:
        clip_low: in [0, 1); null for no lower bound, as in the paper.
        clip_high: at least 0: the largest weight is ``1 + clip_high``; null for no upper bound.

    Source:
        MiniMax 2025 (MiniMax-M1), arXiv:2506.13585, eq. 4 and 5.
    """

    reads = ("log_probs", "ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def __init__(
        self, *, clip_low: Fraction | None = None, clip_high: NonNegativeFloat | None = 4.0
    ) -> None:
        super().__init__()
        self.clip_low = clip_low
        self.clip_high = clip_high

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        floor = None if self.clip_low is None else 1 - self.clip_low
        ceiling = None if self.clip_high is None else 1 + self.clip_high
        ratio, advantage = emptied(batch["ratio"], batch["advantage"], mask)
        log_probs = masked(batch["log_probs"], mask)
        batch["surrogate"] = weighted_log_probs(log_probs, ratio, advantage, floor, ceiling)
        record("trust_region/clip_fraction_low", ratio < (floor or 0.0), where=mask)
        record("trust_region/clip_fraction_high", ratio > (ceiling or math.inf), where=mask)
        return batch
