"""Dual-clip PPO: PPO's clip with a lower bound for negative advantages."""

from __future__ import annotations

from typing import Annotated

from tensordict import TensorDict

from rlcomp.arguments import Fraction, Gt, NonNegativeFloat
from rlcomp.functional.surrogate import dual_clipped_surrogate, neutral_outside, outside_bounds
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class DualClip(Part):
    """Dual-clip PPO.

    ``l_t = J_t`` if ``A_t >= 0``, else ``max(J_t, c * A_t)``, with
    ``J_t = min(r_t A_t, clip(r_t, 1 - eps_low, 1 + eps_high) A_t)`` and ``c`` = ``clip_dual``.

    A token with negative advantage and ratio above ``c`` has no gradient, which bounds the loss on
    stale data. INTELLECT-2's two-sided clip with ``delta = c`` is the same function if ``c`` is at
    least ``1 + eps_high``. For a smaller ``c`` it also clips positive advantages at ``c``.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Args:
        clip_low: eps_low, in [0, 1).
        clip_high: eps_high, at least 0.
        clip_dual: c, a ratio above 1; may be below ``1 + clip_high``, because PPO clips no ratio
            from above if ``A_t < 0``.

    Source:
        Ye et al. 2020, arXiv:1912.09729.
    """

    equation = (
        "l_t = J_t if A_t >= 0, else max(J_t, {clip_dual} A_t), J_t = min(r_t A_t, clip(r_t, 1 "
        "- {clip_low}, 1 + {clip_high}) A_t)"
    )
    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def __init__(
        self,
        *,
        clip_low: Fraction = 0.2,
        clip_high: NonNegativeFloat = 0.2,
        clip_dual: Annotated[float, Gt(1)] = 3.0,
    ) -> None:
        super().__init__()
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.clip_dual = clip_dual

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        batch["surrogate"] = dual_clipped_surrogate(
            ratio, advantage, self.clip_low, self.clip_high, self.clip_dual
        )
        low, high = outside_bounds(ratio, advantage, 1 - self.clip_low, 1 + self.clip_high)
        record("trust_region/clip_fraction_low", low, where=mask)
        record("trust_region/clip_fraction_high", high, where=mask)
        dual = (advantage < 0) & (ratio > self.clip_dual)
        record("trust_region/clip_fraction_dual", dual, where=mask)
        return batch
