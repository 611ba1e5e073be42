"""Trust regions by clipping.

All but NoTrustRegion record ``trust_region/clip_fraction_low`` and
``trust_region/clip_fraction_high``: the shares of tokens with A < 0 below the floor and with A > 0
above the ceiling (CISPO: any A).
"""

from __future__ import annotations

import math
from typing import Annotated

from tensordict import TensorDict

from rlcomp.arguments import Fraction, Gt, NonNegativeFloat
from rlcomp.functional.reduction import masked
from rlcomp.functional.surrogate import (
    clipped_surrogate,
    dual_clipped_surrogate,
    geometric_mean_surrogate,
    neutral_outside,
    outside_bounds,
    weighted_log_probs,
)
from rlcomp.interfaces.loss import LossPart
from rlcomp.metrics import record


class NoTrustRegion(LossPart):
    """No trust region: plain importance-sampled policy gradient.

    ``l_t = r_t A_t``, unclipped.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 6.
    """

    equation = "l_t = r_t A_t"
    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        batch["surrogate"] = ratio * advantage
        return batch


class Clip(LossPart):
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
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        batch["surrogate"] = clipped_surrogate(ratio, advantage, self.clip_low, self.clip_high)
        low, high = outside_bounds(ratio, advantage, 1 - self.clip_low, 1 + self.clip_high)
        record("trust_region/clip_fraction_low", low, where=mask)
        record("trust_region/clip_fraction_high", high, where=mask)
        return batch


class DualClip(LossPart):
    """Dual-clip PPO.

    ``l_t = J_t`` if ``A_t >= 0``, else ``max(J_t, c * A_t)``, with
    ``J_t = min(r_t A_t, clip(r_t, 1 - eps_low, 1 + eps_high) A_t)`` and ``c`` = ``clip_dual``.

    A token with negative advantage and ratio above ``c`` has no gradient, which bounds the loss on
    stale data. INTELLECT-2's two-sided clip with ``delta = c`` is the same function if ``c`` is at
    least ``1 + eps_high``. For a smaller ``c`` the two-sided clip also clips tokens of positive
    advantage at ``c``; dual clip does not.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.
    Records ``trust_region/clip_fraction_dual``, the share of tokens with ``A_t < 0`` and
    ``r_t > c``.

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


class CISPO(LossPart):
    """CISPO: log-probs weighted by a clipped, detached importance ratio.

    ``l_t = sg[clip(r_t, 1 - eps_low, 1 + eps_high)] * A_t * log pi(a_t)``.

    No token loses its gradient; only its weight is bounded. The value of ``l_t`` has no meaning.

    Reads ``log_probs``, ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes
    ``surrogate`` ``[B, T]``.

    Args:
        clip_low: eps_low, in [0, 1); null: no lower bound, as in the paper.
        clip_high: eps_high, at least 0: the largest weight is ``1 + clip_high``; null: no bound.

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


class GMPO(LossPart):
    """GMPO: geometric-mean surrogate, clipped token by token in log space.

    ``l_t = A_t sg[g] exp(x_t) / sg[exp(x_t)]`` at the tokens of a response, with their geometric
    mean ``g = exp((1 / n) sum_t x_t)``, ``x_t = min(log r_t, eps_high)`` if ``A_t > 0``, else
    ``max(log r_t, -eps_low)``.

    A single ratio changes the geometric mean less than GRPO's arithmetic mean, so that a wider clip
    is possible. A clipped token has no gradient; the other tokens of its response keep their
    gradient (GSPO clips the whole response). It needs ``ratio: token`` and
    ``reduction: sequence_mean``. With one advantage per response, the loss is the paper's
    ``(1 / S) sum_i A_i g_i``; if advantages differ between tokens, each token has its own credit.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Args:
        clip_low: eps_low, nats: the floor of a ratio is ``exp(-clip_low)``.
        clip_high: eps_high, nats: the ceiling of a ratio is ``exp(clip_high)``.

    Source:
        Zhao et al. 2025 (GMPO), arXiv:2507.20673: ratios between exp(-0.4) and exp(0.4).
    """

    equation = (
        "l_t = A_t sg[exp(mean_s x_s)] exp(x_t) / sg[exp(x_t)], "
        "x_t = min(log r_t, {clip_high}) if A_t > 0, else max(log r_t, -{clip_low})"
    )
    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def __init__(
        self, *, clip_low: NonNegativeFloat = 0.4, clip_high: NonNegativeFloat = 0.4
    ) -> None:
        super().__init__()
        self.clip_low = clip_low
        self.clip_high = clip_high

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        log_ratio = ratio.log()
        batch["surrogate"] = geometric_mean_surrogate(
            log_ratio, advantage, mask, self.clip_low, self.clip_high
        )
        low, high = outside_bounds(log_ratio, advantage, -self.clip_low, self.clip_high)
        record("trust_region/clip_fraction_low", low, where=mask)
        record("trust_region/clip_fraction_high", high, where=mask)
        return batch
