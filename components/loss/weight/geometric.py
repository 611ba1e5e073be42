"""Geometric rejection sampling (Geo-RS): drop sequences by their geometric mean ratio."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.errors import ConfigError
from rlcomp.functional.importance import at_level, inside, sampler_gap
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class GeometricFilter(Part):
    """Geometric rejection sampling (Geo-RS).

    ``c_i = 1[low <= exp((1 / n_i) sum_t log(pi_old_t / pi_rollout_t)) <= high]``.

    The geometric mean does not grow with the length. Dropped sequences stay in the denominator of
    the loss. Combined with ``tis``, the remaining tokens also have its weight.

    Reads ``old_log_probs``, ``rollout_log_probs``, ``response_mask`` ``[B, T]``. Writes
    ``token_weight`` ``[B, T]``.

    Args:
        low: the least accepted ratio.
        high: the largest accepted ratio.

    Source:
        Li et al. 2025, "Trust region masking for long-horizon LLM reinforcement learning".
    """

    equation = "c_t = 1[{low} <= (pi_old(y) / pi_rollout(y))^(1 / n) <= {high}]"
    reads = ("old_log_probs", "rollout_log_probs", "response_mask")
    writes = ("token_weight",)

    def __init__(self, *, low: NonNegativeFloat = 0.99, high: PositiveFloat = 1.01) -> None:
        super().__init__()
        if low > high:
            raise ConfigError(f"low is {low}, above high={high}: lower it, or raise high")
        self.low = low
        self.high = high

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write 1 for the tokens of accepted sequences, else 0."""
        mask = batch["response_mask"]
        gap = sampler_gap(batch["old_log_probs"], batch["rollout_log_probs"], mask)
        keep = inside(at_level(gap, mask, "sequence_mean"), self.low, self.high)
        record("weight/dropped_geometric", ~keep, where=mask)
        batch["token_weight"] = masked(keep.to(gap.dtype), mask)
        return batch
