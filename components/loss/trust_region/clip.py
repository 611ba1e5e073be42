"""PPO's clip."""

from __future__ import annotations


from tensordict import TensorDict

from rlcomp.check import Fraction, NonNegativeFloat
from rlcomp.component import Component
from rlcomp.functional.surrogate import clipped_surrogate
from rlcomp.run.record import record


class Clip(Component):
    """The pessimistic surrogate with bounds ``[1 - clip_low, 1 + clip_high]``.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Args:
        clip_low: in [0, 1).
        clip_high: at least 0.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 7.
    """

    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def __init__(self, *, clip_low: Fraction, clip_high: NonNegativeFloat) -> None:
        super().__init__()
        self.clip_low = clip_low
        self.clip_high = clip_high

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        ratio, advantage, mask = batch["ratio"], batch["advantage"], batch["response_mask"]
        batch["surrogate"] = clipped_surrogate(ratio, advantage, self.clip_low, self.clip_high)
        high = (advantage > 0) & (ratio > 1 + self.clip_high)
        low = (advantage < 0) & (ratio < 1 - self.clip_low)
        record("trust_region/clip_fraction_high", high, where=mask)
        record("trust_region/clip_fraction_low", low, where=mask)
        return batch
