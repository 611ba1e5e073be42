"""GMPO: the geometric mean of a response's clipped token ratios."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat
from rlcomp.functional.geometric_mean import geometric_mean_surrogate
from rlcomp.functional.surrogate import neutral_outside, outside_bounds
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class Gmpo(Part):
    """GMPO: geometric-mean surrogate, clipped token by token in log space.

    ``l_t = A_t sg[g] exp(x_t) / sg[exp(x_t)]`` at the tokens of a response, with their geometric
    mean ``g = exp((1 / n) sum_t x_t)``, ``x_t = min(log r_t, eps_high)`` if ``A_t > 0``, else
    ``max(log r_t, -eps_low)``.

    Single ratios change the geometric mean less than GRPO's arithmetic one, so that a wider clip is
    possible. A clipped token loses its gradient and the others of its response keep theirs (GSPO
    drops the response). It needs ``ratio: token`` and ``reduction: sequence_mean``. With one
    advantage per response, value and gradient are those of the paper's ``(1 / S) sum_i A_i g_i``;
    with advantages that differ between tokens, each token is credited with its own.

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
