"""Divergence rejection sampling (verl): drop tokens or sequences of high mismatch KL."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.errors import ConfigError
from rlcomp.functional.importance import Aggregate, aggregated, recorded
from rlcomp.functional.kl import Estimator, kl_estimate
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class DivergenceFilter(Part):
    """Divergence rejection sampling (verl).

    ``c_t = 1[low <= D_t <= high]`` with ``D_t`` = ``aggregate`` (token, or sum, mean, max over the
    sequence) of the k1, k2 or k3 estimate of ``KL(pi_rollout || pi_old)``.

    k2 and k3 are never negative: they need no ``low``. k1 is the log of the ratio
    ``pi_rollout / pi_old``, so its bounds are logs. Dropped tokens stay in the denominator of the
    loss.

    Reads ``old_log_probs``, ``rollout_log_probs``, ``response_mask`` ``[B, T]``. Writes
    ``token_weight`` ``[B, T]``.

    Args:
        estimator: k1, k2 or k3.
        aggregate: the token's own estimate, or the sum, mean or maximum over its sequence.
        high: the largest accepted estimate, nats.
        low: the least accepted estimate, nats; null for no bound.

    Source:
        verl, rollout correction (rejection sampling); estimators: Schulman 2020, "Approximating KL
        divergence".
    """

    equation = (
        "c_t = 1[{low|-inf} <= D_t <= {high}], D_t = {aggregate} of {estimator} of "
        "KL(pi_rollout || pi_old)"
    )
    reads = ("old_log_probs", "rollout_log_probs", "response_mask")
    writes = ("token_weight",)

    def __init__(
        self,
        *,
        estimator: Estimator = "k3",
        aggregate: Aggregate = "mean",
        high: float = 0.01,
        low: float | None = None,
    ) -> None:
        super().__init__()
        if low is not None and low > high:
            raise ConfigError(f"low is {low}, above high={high}: lower it, or raise high")
        self.estimator = estimator
        self.aggregate = aggregate
        self.high = high
        self.low = low

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write 1 for accepted tokens, else 0."""
        mask, old = batch["response_mask"], batch["old_log_probs"]
        rollout = recorded(batch["rollout_log_probs"], old)
        per_token = kl_estimate(rollout, old, mask, self.estimator)
        estimate = aggregated(per_token, mask, self.aggregate)
        keep = estimate <= self.high
        if self.low is not None:
            keep = keep & (estimate >= self.low)
        record("weight/divergence", per_token, where=mask)
        record("weight/dropped_divergence", ~keep, where=mask)
        batch["token_weight"] = masked(keep.to(per_token.dtype), mask)
        return batch
