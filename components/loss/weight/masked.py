"""Masked importance sampling of the sampler-trainer mismatch (MIS, IcePop)."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.errors import ConfigError
from rlcomp.functional.importance import (
    Level,
    at_level,
    inside,
    sampler_gap,
)
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class MaskedWeight(Part):
    """Masked importance sampling (MIS; IcePop at token level).

    ``c_t = rho_t * 1[low <= rho_t <= high]`` with ``rho_t = pi_old(a_t) / pi_rollout(a_t)``, or the
    product or geometric mean of ``rho`` over the sequence (``level``).

    Dropped tokens stay in the denominator of the loss. It needs ``old_log_probs=recomputed``: with
    ``old_log_probs=rollout`` every weight is 1.

    Reads ``old_log_probs``, ``rollout_log_probs`` (NaN if the sampler kept none: weight 1),
    ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``. Records the share of dropped
    tokens and the means of the weight and of its square; the effective sample size is
    ``mean^2 / second_moment``.

    Args:
        level: token ratio, sequence ratio (product), or geometric mean over the sequence.
        low: the least accepted ratio.
        high: the largest accepted ratio.

    Source:
        Ling team 2025, arXiv:2510.18855 (IcePop); at the level of sequences Liu et al. 2025, "When
        speed kills stability".
    """

    equation = "c_t = rho_t 1[{low} <= rho_t <= {high}], rho_t = pi_old / pi_rollout ({level})"
    reads = ("old_log_probs", "rollout_log_probs", "response_mask")
    writes = ("token_weight",)

    def __init__(
        self,
        *,
        level: Level = "token",
        low: NonNegativeFloat = 0.5,
        high: PositiveFloat = 5.0,
    ) -> None:
        super().__init__()
        if low > high:
            raise ConfigError(f"low is {low}, above high={high}: lower it, or raise high")
        self.level = level
        self.low = low
        self.high = high

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the weights."""
        mask = batch["response_mask"]
        gap = sampler_gap(batch["old_log_probs"], batch["rollout_log_probs"], mask)
        log_weight = at_level(gap, mask, self.level)
        keep = inside(log_weight, self.low, self.high)
        weight = torch.where(keep, log_weight.exp(), torch.zeros_like(log_weight))
        record("weight/mean", weight, where=mask)
        record("weight/second_moment", weight.square(), where=mask)
        record("weight/dropped_masked", ~keep, where=mask)
        batch["token_weight"] = masked(weight, mask)
        return batch
