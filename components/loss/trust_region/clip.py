"""PPO's clip, and DAPO's clip-higher if ``clip_high > clip_low``."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import Fraction, NonNegativeFloat
from rlcomp.functional.masked import masked
from rlcomp.functional.surrogate import clipped_surrogate
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class Clip(Part):
    """PPO's clipped surrogate, and DAPO's clip-higher if ``clip_high > clip_low``.

    ``l_t = min(r_t A_t, clip(r_t, 1 - eps_low, 1 + eps_high) A_t)``.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Args:
        clip_low: eps_low, in [0, 1).
        clip_high: eps_high, at least 0.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 7.
    """

    equation = "l_t = min(r_t A_t, clip(r_t, 1 - {clip_low}, 1 + {clip_high}) A_t)"
    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def __init__(self, *, clip_low: Fraction = 0.2, clip_high: NonNegativeFloat = 0.2) -> None:
        super().__init__()
        self.clip_low = clip_low
        self.clip_high = clip_high

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        # Mask both before the product: NaN outside the mask must not reach the gradient.
        ratio = torch.where(mask, batch["ratio"], torch.ones_like(batch["ratio"]))
        advantage = masked(batch["advantage"], mask)
        batch["surrogate"] = clipped_surrogate(ratio, advantage, self.clip_low, self.clip_high)
        high = (advantage > 0) & (ratio > 1 + self.clip_high)
        low = (advantage < 0) & (ratio < 1 - self.clip_low)
        record("trust_region/clip_fraction_high", high, where=mask)
        record("trust_region/clip_fraction_low", low, where=mask)
        return batch
