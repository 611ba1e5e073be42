"""Truncated importance sampling of the sampler-trainer mismatch (TIS)."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.errors import ConfigError
from rlcomp.functional.importance import (
    Level,
    at_level,
    sampler_gap,
    truncated_weight,
)
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class TruncatedWeight(Part):
    """Truncated importance sampling (TIS).

    ``c_t = clip(rho_t, floor, cap)`` with ``rho_t = pi_old(a_t) / pi_rollout(a_t)``, or the product
    or geometric mean of ``rho`` over the sequence (``level``).

    It needs ``old_log_probs=recomputed``: with ``old_log_probs=rollout`` both policies are the same
    and every weight is 1.

    Reads ``old_log_probs``, ``rollout_log_probs`` (NaN if the sampler kept none: weight 1),
    ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``. Records the means of
    the weight and of its square; the effective sample size is ``mean^2 / second_moment``.

    Args:
        level: token ratio, sequence ratio (product), or geometric mean over the sequence.
        cap: the largest weight.
        floor: the least weight.

    Source:
        Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training".
    """

    equation = "c_t = clip(rho_t, {floor}, {cap}), rho_t = pi_old / pi_rollout ({level})"
    reads = ("old_log_probs", "rollout_log_probs", "response_mask")
    writes = ("token_weight",)

    def __init__(
        self,
        *,
        level: Level = "token",
        cap: PositiveFloat = 2.0,
        floor: NonNegativeFloat = 0.0,
    ) -> None:
        super().__init__()
        if floor > cap:
            raise ConfigError(f"floor is {floor}, above cap={cap}: lower it, or raise cap")
        self.level = level
        self.cap = cap
        self.floor = floor

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the weights."""
        mask = batch["response_mask"]
        weight = self._weight(batch)
        record("weight/mean", weight, where=mask)
        record("weight/second_moment", weight.square(), where=mask)
        batch["token_weight"] = masked(weight, mask)
        return batch

    def _weight(self, batch: TensorDict) -> Tensor:
        mask = batch["response_mask"]
        gap = sampler_gap(batch["old_log_probs"], batch["rollout_log_probs"], mask)
        return truncated_weight(at_level(gap, mask, self.level), self.floor, self.cap)
