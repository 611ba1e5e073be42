"""CISPO: clipped importance weights on the log-probs."""

from __future__ import annotations

import math

from tensordict import TensorDict

from rlcomp.arguments import Fraction, NonNegativeFloat
from rlcomp.functional.masked import masked
from rlcomp.functional.surrogate import neutral_outside, weighted_log_probs
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class Cispo(Part):
    """CISPO: log-probs weighted by a clipped, detached importance ratio.

    ``l_t = sg[clip(r_t, 1 - eps_low, 1 + eps_high)] * A_t * log pi(a_t)``.

    No token loses its gradient; only its weight is bounded. The value of ``l_t`` has no meaning.

    Reads ``log_probs``, ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes
    ``surrogate`` ``[B, T]``.

    Args:
        clip_low: eps_low, in [0, 1); null for no lower bound, as in the paper.
        clip_high: eps_high, at least 0: the largest weight is ``1 + clip_high``; null for no bound.

    Source:
        MiniMax 2025 (MiniMax-M1), arXiv:2506.13585, eq. 4 and 5.
    """

    equation = "l_t = sg[clip(r_t, 1 - {clip_low}, 1 + {clip_high})] A_t log pi(a_t)"
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
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        log_probs = masked(batch["log_probs"], mask)
        batch["surrogate"] = weighted_log_probs(log_probs, ratio, advantage, floor, ceiling)
        record("trust_region/clip_fraction_low", ratio < (floor or 0.0), where=mask)
        record("trust_region/clip_fraction_high", ratio > (ceiling or math.inf), where=mask)
        return batch
