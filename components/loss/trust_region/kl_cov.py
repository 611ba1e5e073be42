"""KL-Cov: KL penalty on the tokens with the highest covariance."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, Probability
from rlcomp.functional.covariance import count_of, covariance, highest
from rlcomp.functional.masked import masked
from rlcomp.functional.ratio_distance import ROUNDING, log_distance
from rlcomp.functional.surrogate import neutral_outside
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class KLCov(Part):
    """KL-Cov: unclipped surrogate with a KL penalty on the highest-covariance tokens.

    ``l_t = r_t A_t - beta * 1[t in I_KL] * |log r_t|`` with ``I_KL`` = the
    ``max(1, floor(share * N))`` tokens of largest
    ``Cov_t = (A_t - mean(A)) (log pi(a_t) - mean(log pi))`` over the ``N`` tokens of the optimiser
    step; ``beta`` = ``kl_coef``.

    Ties with the last one are included; tokens with ``Cov_t <= 0`` are never selected. At
    ``r_t = 1`` (up to rounding) the penalty has no gradient.

    Reads ``log_probs``, ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes
    ``surrogate`` ``[B, T]``. Prepares ``selected`` ``[B, T]``: I_KL.

    Args:
        share: size of I_KL as a share of the step's tokens.
        kl_coef: beta, in units of advantage per nat.

    Source:
        Cui et al. 2025, arXiv:2505.22617, section 4.2 (KL-Cov).
    """

    equation = (
        "l_t = r_t A_t - {kl_coef} 1[t in I_KL] |log r_t|, I_KL = a share {share} of the "
        "tokens, at least 1, of largest Cov_t"
    )
    reads = ("log_probs", "ratio", "advantage", "response_mask")
    writes = ("surrogate",)
    keys = {"selected": ("B T", "bool", "tokens a part picked out of the whole optimiser step")}
    step_keys = ("selected",)
    has_own_gradient = True

    def __init__(self, *, share: Probability = 2e-3, kl_coef: NonNegativeFloat = 1.0) -> None:
        super().__init__()
        self.share = share
        self.kl_coef = kl_coef

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``I_KL``, selected from all rows of the step."""
        mask = batch["response_mask"]
        value = covariance(batch["log_probs"], batch["advantage"], mask)
        result = batch.select()
        eligible = mask & (value > ROUNDING)
        result["selected"] = highest(value, eligible, count_of(mask, self.share))
        return result

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        selected, mask = self.prepared(batch)["selected"], batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        penalty = masked(log_distance(ratio), selected)
        batch["surrogate"] = ratio * advantage - self.kl_coef * penalty
        record("trust_region/selected_fraction", selected, where=mask)
        return batch
