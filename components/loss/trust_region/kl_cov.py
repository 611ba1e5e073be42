"""KL-Cov: tokens that drive the entropy down are held at the old policy."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, Probability
from rlcomp.functional.covariance import count_of, covariance, highest
from rlcomp.functional.masked import masked
from rlcomp.functional.ratio_distance import ROUNDING, log_distance
from rlcomp.functional.surrogate import emptied
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class KLCov(Part):
    """``ratio * advantage``, less ``kl_coef * |log ratio|`` on the tokens of highest covariance.

    Those are ``max(1, share * tokens)`` of the whole optimiser step, ties with the last one
    included; a token whose covariance of log-prob and advantage is not above 0 is never one.
    There is no clip. At ratio 1 (but for rounding) the penalty has no gradient.

    Reads ``log_probs``, ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes
    ``surrogate`` ``[B, T]``. Prepares ``selected`` ``[B, T]``: the tokens with a penalty.

    Args:
        share: of the step's tokens that are held.
        kl_coef: weight of the penalty, in units of advantage per nat.

    Source:
        Cui et al. 2025, arXiv:2505.22617, section 4.2 (KL-Cov).
    """

    reads = ("log_probs", "ratio", "advantage", "response_mask")
    writes = ("surrogate",)
    prepares = ("selected",)

    def __init__(self, *, share: Probability = 2e-3, kl_coef: NonNegativeFloat = 1.0) -> None:
        super().__init__()
        self.share = share
        self.kl_coef = kl_coef

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Which tokens are held, from all rows of the step."""
        mask = batch["response_mask"]
        value = covariance(batch["log_probs"], batch["advantage"], mask)
        result = batch.select()
        eligible = mask & (value > ROUNDING)
        result["selected"] = highest(value, eligible, count_of(mask, self.share))
        return result

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        selected, mask = self.prepared(batch)["selected"], batch["response_mask"]
        ratio, advantage = emptied(batch["ratio"], batch["advantage"], mask)
        penalty = masked(log_distance(ratio), selected)
        batch["surrogate"] = ratio * advantage - self.kl_coef * penalty
        record("trust_region/selected_fraction", selected, where=mask)
        return batch
