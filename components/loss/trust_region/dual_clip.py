"""PPO's clip with a bound on how much a token can count against the policy."""

from __future__ import annotations

from typing import Annotated

from tensordict import TensorDict

from rlcomp.arguments import Fraction, Gt, NonNegativeFloat
from rlcomp.errors import ConfigError
from rlcomp.functional.surrogate import dual_clipped_surrogate, emptied, outside_bounds
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class DualClip(Part):
    """The pessimistic surrogate, at least ``clip_dual * advantage`` where that is negative.

    A negative token whose ratio is above ``clip_dual`` has no gradient, so that stale data cannot
    make it arbitrarily large. A two-sided clip with that cap is the same function.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Args:
        clip_low: in [0, 1).
        clip_high: at least 0.
        clip_dual: a ratio, above ``1 + clip_high``.

    Raises:
        ConfigError: ``clip_dual`` is not above ``1 + clip_high``.

    Source:
        Ye et al. 2020, arXiv:1912.09729.
    """

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
        if clip_dual <= 1 + clip_high:
            raise ConfigError(
                f"clip_dual is {clip_dual}, but the ratio is cut at 1 + clip_high = "
                f"{1 + clip_high} already: set clip_dual above it, or use trust_region=clip"
            )
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.clip_dual = clip_dual

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        ratio, advantage = emptied(batch["ratio"], batch["advantage"], mask)
        batch["surrogate"] = dual_clipped_surrogate(
            ratio, advantage, self.clip_low, self.clip_high, self.clip_dual
        )
        low, high = outside_bounds(ratio, advantage, 1 - self.clip_low, 1 + self.clip_high)
        record("trust_region/clip_fraction_low", low, where=mask)
        record("trust_region/clip_fraction_high", high, where=mask)
        dual = (advantage < 0) & (ratio > self.clip_dual)
        record("trust_region/clip_fraction_dual", dual, where=mask)
        return batch
