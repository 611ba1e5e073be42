"""Weights that correct for a mismatch of policies.

Weights record ``weight/mean`` and ``weight/second_moment`` (mean square), filters
``weight/dropped_<filter>`` (share of tokens), DivergenceFilter ``weight/divergence`` (mean k).
"""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.errors import ConfigError
from rlcomp.functional.divergence import Estimator, kl_estimate
from rlcomp.functional.importance import (
    Aggregate,
    Level,
    aggregate_rows,
    fill_unrecorded,
    level_log_weight,
    normaliser,
    off_policy_tokens,
    sampler_gap,
    truncated_weight,
    within_bounds,
)
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import LossPart
from rlcomp.metrics import record


class DivergenceFilter(LossPart):
    """Divergence rejection sampling (verl).

    ``c_t = 1[low <= D_t <= high]`` with ``D_t`` = ``aggregate`` (token, or sum, mean, max over the
    sequence) of the k1, k2 or k3 estimate of ``KL(pi_rollout || pi_old)``.

    k2 and k3 are never negative: they need no ``low``. k1 is ``log(pi_rollout / pi_old)``, so its
    bounds are logs. Dropped tokens stay in the denominator of the loss.

    Reads ``old_log_probs``, ``rollout_log_probs`` (NaN if not recorded: estimate 0),
    ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``.

    Args:
        estimator: k1, k2 or k3.
        aggregate: the token's own estimate, or the sum, mean or maximum over its sequence.
        high: the largest accepted estimate, nats.
        low: the least accepted estimate, nats; null: no bound.

    Source:
        verl, rollout correction; estimators: Schulman 2020, "Approximating KL divergence".
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
        rollout = fill_unrecorded(batch["rollout_log_probs"], old)
        per_token = kl_estimate(rollout, old, mask, self.estimator)
        estimate = aggregate_rows(per_token, mask, self.aggregate)
        keep = estimate <= self.high
        if self.low is not None:
            keep = keep & (estimate >= self.low)
        record("weight/divergence", per_token, where=mask)
        record("weight/dropped_divergence", ~keep, where=mask)
        batch["token_weight"] = masked(keep.to(per_token.dtype), mask)
        return batch


class MaskedWeight(LossPart):
    """Masked importance sampling (MIS; IcePop at token level).

    ``c_t = rho_t * 1[low <= rho_t <= high]`` with ``rho_t = pi_old(a_t) / pi_rollout(a_t)``, or the
    product or geometric mean of ``rho`` over the sequence (``level``).

    Dropped tokens stay in the denominator of the loss. With ``old_log_probs=rollout`` every weight
    is 1. Reads ``old_log_probs``, ``rollout_log_probs`` (NaN if not recorded: weight 1),
    ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``.

    Args:
        level: ``token``: the token's ratio; ``sequence``: the product over the sequence;
            ``sequence_mean``: the geometric mean over the sequence.
        low: the least accepted ratio.
        high: the largest accepted ratio.

    Source:
        Ling team 2025, arXiv:2510.18855 (IcePop, tokens); Liu et al. 2025, "When speed kills
        stability" (sequences).
    """

    equation = "c_t = rho_t 1[{low} <= rho_t <= {high}], rho_t = pi_old / pi_rollout ({level})"
    reads = ("old_log_probs", "rollout_log_probs", "response_mask")
    writes = ("token_weight",)

    def __init__(
        self, *, level: Level = "token", low: NonNegativeFloat = 0.5, high: PositiveFloat = 5.0
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
        log_weight = level_log_weight(gap, mask, self.level)
        keep = within_bounds(log_weight, self.low, self.high)
        weight = torch.where(keep, log_weight.exp(), torch.zeros_like(log_weight))
        record("weight/mean", weight, where=mask)
        record("weight/second_moment", weight.square(), where=mask)
        record("weight/dropped_masked", ~keep, where=mask)
        batch["token_weight"] = masked(weight, mask)
        return batch


class TruncatedWeight(LossPart):
    """Truncated importance sampling (TIS).

    ``c_t = clip(rho_t, floor, cap)`` with ``rho_t = pi_old(a_t) / pi_rollout(a_t)``, or the product
    or geometric mean of ``rho`` over the sequence (``level``).

    It needs ``old_log_probs=recomputed``: with ``old_log_probs=rollout`` every weight is 1.

    Reads ``old_log_probs``, ``rollout_log_probs`` (NaN if not recorded: weight 1),
    ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``. The effective sample size is
    ``mean^2 / second_moment``.

    Args:
        level: ``token``: the token's ratio; ``sequence``: the product over the sequence;
            ``sequence_mean``: the geometric mean over the sequence.
        cap: the largest weight.
        floor: the least weight.

    Source:
        Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training".
    """

    equation = "c_t = clip(rho_t, {floor}, {cap}), rho_t = pi_old / pi_rollout ({level})"
    reads = ("old_log_probs", "rollout_log_probs", "response_mask")
    writes = ("token_weight",)

    def __init__(
        self, *, level: Level = "token", cap: PositiveFloat = 2.0, floor: NonNegativeFloat = 0.0
    ) -> None:
        super().__init__()
        if floor > cap:
            raise ConfigError(f"floor is {floor}, above cap={cap}: lower it, or raise cap")
        self.level = level
        self.cap = cap
        self.floor = floor

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the weights."""
        mask, weight = batch["response_mask"], self._weight(batch)
        record("weight/mean", weight, where=mask)
        record("weight/second_moment", weight.square(), where=mask)
        batch["token_weight"] = masked(weight, mask)
        return batch

    def _weight(self, batch: TensorDict) -> Tensor:
        mask = batch["response_mask"]
        gap = sampler_gap(batch["old_log_probs"], batch["rollout_log_probs"], mask)
        return truncated_weight(level_log_weight(gap, mask, self.level), self.floor, self.cap)


class SelfNormalisedWeight(TruncatedWeight):
    """Self-normalised truncated importance sampling.

    ``c_t = w_t / mean(w)`` with ``w_t`` the weight of :class:`TruncatedWeight`.

    The mean is over the tokens of the optimiser step; with another ``level``, over its sequences.

    Reads ``old_log_probs``, ``rollout_log_probs`` (NaN if not recorded: ``w_t`` is 1),
    ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``. Prepares ``weight_scale``
    ``[B]``.

    Source:
        Owen 2013, "Monte Carlo theory", section 9.2.
    """

    keys = {"weight_scale": ("B", "float", "mean importance weight of the whole optimiser step")}
    equation = (
        "c_t = rho'_t / mean(rho'), rho'_t = clip(rho_t, {floor}, {cap}), rho_t = pi_old / "
        "pi_rollout ({level})"
    )
    step_keys = ("weight_scale",)
    needs_forward = False

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return the mean weight, ``[B]``, the same for all rows."""
        mask = batch["response_mask"]
        scale = normaliser(super()._weight(batch), mask, self.level)
        return batch.select().set("weight_scale", scale.expand(len(mask)))

    def _weight(self, batch: TensorDict) -> Tensor:
        scale: Tensor = self.prepared(batch)["weight_scale"]
        return super()._weight(batch) / scale[:, None]


class GeometricFilter(LossPart):
    """Geometric rejection sampling (Geo-RS).

    ``c_i = 1[low <= exp((1 / n_i) sum_t log(pi_old_t / pi_rollout_t)) <= high]``.

    The geometric mean does not grow with the length. The denominator keeps dropped sequences.

    Reads ``old_log_probs``, ``rollout_log_probs`` (NaN if not recorded: log-ratio 0),
    ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``.

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
        keep = within_bounds(level_log_weight(gap, mask, "sequence_mean"), self.low, self.high)
        record("weight/dropped_geometric", ~keep, where=mask)
        batch["token_weight"] = masked(keep.to(gap.dtype), mask)
        return batch


class OffPolicyMask(LossPart):
    """Off-policy sequence masking (DeepSeek-V3.2).

    ``c_it = 0`` if ``A_it < 0`` and ``(1 / n_i) sum_t log(pi_rollout_t / pi_t) > delta``, else 1.

    Tokens with ``A_it >= 0`` are always kept. Dropped tokens stay in the denominator of the loss.

    Reads ``log_probs``, ``rollout_log_probs`` (NaN: no gap), ``advantage``, ``response_mask``
    ``[B, T]``. Writes ``token_weight`` ``[B, T]``.

    Args:
        delta: largest accepted mean log-ratio of a response, nats per token.

    Source:
        DeepSeek-V3.2 2025, arXiv:2512.02556, eq. 9.
    """

    equation = (
        "c_t = 0 if A_t < 0 and (1 / n) sum_t log(pi_rollout(a_t) / pi(a_t)) > {delta}, else 1"
    )
    reads = ("log_probs", "rollout_log_probs", "advantage", "response_mask")
    writes = ("token_weight",)

    def __init__(self, *, delta: NonNegativeFloat = 0.5) -> None:
        super().__init__()
        self.delta = delta

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write 1 for accepted tokens, else 0."""
        mask = batch["response_mask"]
        drop = off_policy_tokens(
            batch["log_probs"], batch["rollout_log_probs"], batch["advantage"], mask, self.delta
        )
        record("weight/dropped_off_policy", drop, where=mask)
        batch["token_weight"] = masked((~drop).to(batch["log_probs"].dtype), mask)
        return batch
