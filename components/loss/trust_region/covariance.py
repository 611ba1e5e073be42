"""Trust regions by the covariance of advantage and log-prob (Cui et al. 2025)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import Fraction, NonNegativeFloat, Probability
from rlcomp.errors import ConfigError
from rlcomp.functional.clip_bounds import covariance, draw_eligible, highest, share_count
from rlcomp.functional.ratio import ROUNDING, log_distance
from rlcomp.functional.reduction import masked
from rlcomp.functional.surrogate import clipped_surrogate, neutral_outside, outside_bounds
from rlcomp.interfaces.loss import LossPart
from rlcomp.metrics import record
from rlcomp.seed import new_generator


class ClipCov(LossPart):
    """Clip-Cov: PPO surrogate, set to 0 on randomly drawn high-covariance tokens.

    ``l_t = 0`` if ``t in I_clip``, else ``min(r_t A_t, clip(r_t, 1 - eps_low, 1 + eps_high) A_t)``;
    ``I_clip`` = ``max(1, floor(share * N))`` tokens drawn uniformly from
    ``{t: cov_low < Cov_t < cov_high, t not clipped}`` (all of them if they are fewer), with
    ``Cov_t = (A_t - mean(A)) (log pi(a_t) - mean(log pi))`` over the ``N`` tokens of the optimiser
    step.

    These tokens lower the entropy most.

    Reads ``log_probs``, ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes
    ``surrogate`` ``[B, T]``. Prepares ``selected`` ``[B, T]``: I_clip. Records
    ``trust_region/selected_fraction``, the share of I_clip, and ``trust_region/clip_fraction_low``
    and ``trust_region/clip_fraction_high``, the shares of tokens that PPO clips.

    Args:
        clip_low: eps_low, in [0, 1).
        clip_high: eps_high, at least 0.
        share: size of I_clip as a share of the step's tokens.
        covariance_low: cov_low, in units of advantage times nats.
        covariance_high: cov_high, in the same units.

    Raises:
        ConfigError: no covariance is between the bounds.

    Source:
        Cui et al. 2025, arXiv:2505.22617, section 4.2 (Clip-Cov).
    """

    equation = (
        "l_t = 0 if t in I_clip, else min(r_t A_t, clip(r_t, 1 - {clip_low}, 1 + {clip_high}) "
        "A_t), I_clip = a share {share} of the tokens, at least 1, drawn from those not "
        "clipped with {covariance_low} < Cov_t < {covariance_high}"
    )
    reads = ("log_probs", "ratio", "advantage", "response_mask")
    writes = ("surrogate",)
    keys = {"selected": ("B T", "bool", "tokens that a part selects from the whole optimiser step")}
    step_keys = ("selected",)
    changes_on_policy_gradient = True

    def __init__(
        self,
        *,
        clip_low: Fraction = 0.2,
        clip_high: NonNegativeFloat = 0.2,
        share: Probability = 2e-4,
        covariance_low: float = 1.0,
        covariance_high: float = 5.0,
    ) -> None:
        super().__init__()
        if covariance_high <= covariance_low:
            raise ConfigError(
                f"covariance_high is {covariance_high}, not above covariance_low = "
                f"{covariance_low}: no token is between them"
            )
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.share = share
        self.covariance_low = covariance_low
        self.covariance_high = covariance_high
        self.generator = new_generator()

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``I_clip``, drawn from all rows of the step."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        covariances = covariance(batch["log_probs"], batch["advantage"], mask)
        low, high = outside_bounds(ratio, advantage, 1 - self.clip_low, 1 + self.clip_high)
        between = (covariances > self.covariance_low) & (covariances < self.covariance_high)
        eligible = mask & ~low & ~high & between
        count = share_count(mask, self.share)
        result = batch.select()
        result["selected"] = draw_eligible(eligible, batch["advantage"], count, self.generator)
        return result

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        selected, mask = self.prepared(batch)["selected"], batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        surrogate = clipped_surrogate(ratio, advantage, self.clip_low, self.clip_high)
        batch["surrogate"] = masked(surrogate, ~selected)
        low, high = outside_bounds(ratio, advantage, 1 - self.clip_low, 1 + self.clip_high)
        record("trust_region/clip_fraction_low", low, where=mask)
        record("trust_region/clip_fraction_high", high, where=mask)
        record("trust_region/selected_fraction", selected, where=mask)
        return batch


class KLCov(LossPart):
    """KL-Cov: unclipped surrogate with a KL penalty on the highest-covariance tokens.

    ``l_t = r_t A_t - beta * 1[t in I_KL] * |log r_t|`` with ``I_KL`` = the
    ``max(1, floor(share * N))`` tokens of largest
    ``Cov_t = (A_t - mean(A)) (log pi(a_t) - mean(log pi))`` over the ``N`` tokens of the optimiser
    step; ``beta`` = ``kl_coef``.

    Tokens that tie with the last selected token are selected, too; tokens with ``Cov_t <= 1e-5``
    (0 up to rounding) are never selected. At ``r_t = 1`` (up to rounding) the penalty has no
    gradient.

    Reads ``log_probs``, ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes
    ``surrogate`` ``[B, T]``. Prepares ``selected`` ``[B, T]``: I_KL. Records
    ``trust_region/selected_fraction``, the share of I_KL.

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
    keys = {"selected": ("B T", "bool", "tokens that a part selects from the whole optimiser step")}
    step_keys = ("selected",)
    has_own_gradient = True

    def __init__(self, *, share: Probability = 2e-3, kl_coef: NonNegativeFloat = 1.0) -> None:
        super().__init__()
        self.share = share
        self.kl_coef = kl_coef

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``I_KL``, selected from all rows of the step."""
        mask = batch["response_mask"]
        covariances = covariance(batch["log_probs"], batch["advantage"], mask)
        result = batch.select()
        eligible = mask & (covariances > ROUNDING)
        result["selected"] = highest(covariances, eligible, share_count(mask, self.share))
        return result

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        selected, mask = self.prepared(batch)["selected"], batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        penalty = masked(log_distance(ratio), selected)
        batch["surrogate"] = ratio * advantage - self.kl_coef * penalty
        record("trust_region/selected_fraction", selected, where=mask)
        return batch
