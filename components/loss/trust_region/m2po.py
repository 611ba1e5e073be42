"""M2PO: a mask of the largest log ratios that bounds their second moment."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.masked import masked
from rlcomp.functional.ratio_distance import ROUNDING
from rlcomp.functional.second_moment import second_moment_outliers
from rlcomp.functional.surrogate import neutral_outside, outside_bounds
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class M2po(Part):
    """M2PO: unclipped surrogate without the outliers of the log ratio's second moment.

    ``l_t = M_t r_t A_t``. ``T = {A_t > 0, r_t > 1} or {A_t < 0, r_t < 1}`` are the tokens that PPO
    could clip. Those with the largest ``(log r_t)^2`` get ``M_t = 0`` until the mean over the rest
    of ``T`` is at most ``tau``; all others have ``M_t = 1``.

    The bound is on the optimiser step, not on a token. On stale data far fewer tokens are masked
    than PPO clips. Masked tokens stay in the denominator of the loss.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.
    Prepares ``selected`` ``[B, T]``: the tokens with ``M_t = 0``. Records their share of all
    tokens, and the second moment of ``T`` before and after.

    Args:
        tau: largest mean of ``(log r)^2`` over ``T``, nats squared.

    Source:
        Zheng et al. 2025 (M2PO), arXiv:2510.01161, eq. 4 and 5, algorithm 1. (The authors' code
        turns the bound into a clip range instead.)
    """

    equation = (
        "l_t = M_t r_t A_t; of T = (A > 0, r > 1) or (A < 0, r < 1) the largest (log r)^2 have "
        "M = 0 until their mean over the rest of T is at most {tau}, all others M = 1"
    )
    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)
    keys = {"selected": ("B T", "bool", "tokens a part picked out of the whole optimiser step")}
    step_keys = ("selected",)

    def __init__(self, *, tau: PositiveFloat = 0.04) -> None:
        super().__init__()
        self.tau = tau

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return the masked tokens, selected from all rows of the step."""
        ratio, _, eligible = _clippable(batch)
        result = batch.select()
        result["selected"] = second_moment_outliers(ratio.log(), eligible, self.tau)
        return result

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        selected, mask = self.prepared(batch)["selected"], batch["response_mask"]
        ratio, advantage, eligible = _clippable(batch)
        batch["surrogate"] = masked(ratio * advantage, ~selected)
        square = ratio.detach().log().square()
        record("trust_region/selected_fraction", selected, where=mask)
        record("trust_region/second_moment", square, where=eligible)
        record("trust_region/second_moment_kept", square, where=eligible & ~selected)
        return batch


def _clippable(batch: TensorDict) -> tuple[Tensor, Tensor, Tensor]:
    """Return ratio, advantage, and the mask of the tokens that PPO could clip.

    Ratios within rounding of 1 count as 1, so that noise has no effect.
    """
    ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], batch["response_mask"])
    low, high = outside_bounds(ratio, advantage, 1 - ROUNDING, 1 + ROUNDING)
    return ratio, advantage, low | high
