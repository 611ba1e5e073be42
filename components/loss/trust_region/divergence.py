"""Trust regions by divergences."""

from __future__ import annotations

from typing import Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.errors import ConfigError
from rlcomp.functional.clip_bounds import second_moment_outliers
from rlcomp.functional.divergence import binary_kl, binary_total_variation
from rlcomp.functional.kl_coefficient import doubling_kl_coef
from rlcomp.functional.ratio import ROUNDING, old_policy_kl
from rlcomp.functional.reduction import masked
from rlcomp.functional.surrogate import neutral_outside, outside_bounds
from rlcomp.interfaces.loss import LossPart
from rlcomp.metrics import record


class DPPO(LossPart):
    """DPPO: surrogate masked by the divergence of the policies instead of clipped.

    ``l_t = M_t r_t A_t`` with ``M_t = 0`` if ``D_t > delta`` and the probability has moved in the
    direction of the advantage (``A_t > 0`` and up, or ``A_t < 0`` and down), else 1. ``D_t`` is the
    divergence of the old and the current policy over the binary event "this token or another".

    A rare token can change its ratio much without moving the distribution, and a frequent one can
    move the distribution with a small change of its ratio. PPO's clip is wrong in both cases. With
    ``old_log_probs=rollout`` the divergence is to the sampling policy, as in the paper.

    Reads ``log_probs``, ``old_log_probs``, ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``.
    Writes ``surrogate`` ``[B, T]``. Records ``trust_region/clip_fraction_low`` and
    ``trust_region/clip_fraction_high``, the shares of all response tokens that moved down, or up,
    and have ``M_t = 0``, and ``trust_region/divergence``, the mean ``D_t``.

    Args:
        divergence: ``tv``: ``D_t = |pi - pi_old|``; ``kl``: ``KL(pi_old || pi)``.
        delta: largest divergence, in probability (``tv``; below 1) or nats (``kl``).

    Raises:
        ConfigError: ``divergence`` is ``tv`` and ``delta`` is at least 1.

    Source:
        Qi et al. 2026 (DPPO), arXiv:2602.04879, Binary-TV and Binary-KL; delta as in the authors'
        scripts: 0.15 (``tv``), 0.05 (``kl``).
    """

    equation = (
        "l_t = M_t r_t A_t, M_t = 0 if D_t > {delta} and A_t (pi - pi_old) > 0, else 1; "
        "D_t = {divergence} of (pi_old, pi) on this token or another"
    )
    reads = ("log_probs", "old_log_probs", "ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def __init__(
        self, *, divergence: Literal["tv", "kl"] = "tv", delta: PositiveFloat = 0.15
    ) -> None:
        super().__init__()
        if divergence == "tv" and delta >= 1:
            raise ConfigError(
                f"DPPO: delta is {delta:g}, but a total variation is at most 1, so no token would "
                "be masked: set a delta below 1, or divergence=kl"
            )
        self.divergence = divergence
        self.delta = delta

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        new, old = masked(batch["log_probs"].detach(), mask), masked(batch["old_log_probs"], mask)
        measure = binary_kl if self.divergence == "kl" else binary_total_variation
        distance = measure(old, new)
        high = (distance > self.delta) & (advantage > 0) & (new > old)
        low = (distance > self.delta) & (advantage < 0) & (new < old)
        batch["surrogate"] = masked(ratio * advantage, ~(high | low))
        record("trust_region/clip_fraction_low", low, where=mask)
        record("trust_region/clip_fraction_high", high, where=mask)
        record("trust_region/divergence", distance, where=mask)
        return batch


class KLPenalty(LossPart):
    """PPO-penalty: surrogate with an (adaptive) KL penalty to the old policy.

    ``l_t = r_t A_t - beta * (r_t - 1 - log r_t)``; the bracket is the k3 estimate of
    ``KL(pi_old || pi)``, unbiased in value and gradient on samples of ``pi_old``.

    Adaptive: after each optimiser step with mean KL per token ``d``, ``beta <- 2 beta`` if
    ``d > 1.5 d_target`` and ``beta <- beta / 2`` if ``d < d_target / 1.5``, within [1e-8, 1e8]. A
    ``d`` below 1e-4 of ``d_target`` leaves ``beta`` as it is. ``d`` is measured in the forward pass
    of the step, before its update. It is 0 in the first step on a batch: adaptation needs several
    optimiser steps per batch.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.
    Records ``trust_region/kl``, ``d``, and ``trust_region/kl_coef``, the step's ``beta``.

    Args:
        kl_coef: beta, or with ``adaptive`` its initial value, in units of advantage per nat.
        target: d_target, mean KL per token of a step, in nats.
        adaptive: whether beta is updated.

    Raises:
        ConfigError: ``adaptive`` is true and ``kl_coef`` is 0.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 8 and section 4.
    """

    equation = (
        "l_t = r_t A_t - beta (r_t - 1 - log r_t), beta from {kl_coef}, target {target}, "
        "adaptive {adaptive}"
    )
    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)
    has_own_gradient = True
    coefficient: torch.Tensor

    def __init__(
        self,
        *,
        kl_coef: NonNegativeFloat = 1.0,
        target: PositiveFloat = 0.01,
        adaptive: bool = True,
    ) -> None:
        super().__init__()
        if adaptive and kl_coef == 0:
            raise ConfigError(
                "kl_coef is 0 and adaptive is true: doubling and halving would leave it at 0; set "
                "kl_coef above 0, or adaptive=false"
            )
        self.kl_coef = kl_coef
        self.target = target
        self.adaptive = adaptive
        self.register_buffer("coefficient", torch.tensor(float(kl_coef)))
        self.kl_sum, self.tokens = 0.0, 0

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        kl = old_policy_kl(ratio)
        batch["surrogate"] = ratio * advantage - self.coefficient * kl
        self.kl_sum += float(kl.detach().double().sum())
        self.tokens += int(mask.sum())
        record("trust_region/kl", kl, where=mask)
        return batch

    def after_step(self) -> None:
        """Update the coefficient from the mean KL over the step's micro-batches."""
        coefficient = float(self.coefficient)
        record("trust_region/kl_coef", coefficient)
        if self.adaptive and self.tokens:
            kl = self.kl_sum / self.tokens
            self.coefficient.fill_(doubling_kl_coef(coefficient, kl, target=self.target))
        self.kl_sum, self.tokens = 0.0, 0


class M2PO(LossPart):
    """M2PO: unclipped surrogate without the outliers of the log ratio's second moment.

    ``l_t = M_t r_t A_t``. ``T = {A_t > 0, r_t > 1} or {A_t < 0, r_t < 1}`` are the tokens that PPO
    could clip. The tokens of ``T`` with the largest ``(log r_t)^2`` get ``M_t = 0`` until the mean
    over the rest of ``T`` is at most ``tau``; all other tokens have ``M_t = 1``.

    The bound is on the optimiser step, not on a token. On stale data far fewer tokens are masked
    than PPO clips. Masked tokens stay in the denominator of the loss.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.
    Prepares ``selected`` ``[B, T]``: the tokens with ``M_t = 0``. Records
    ``trust_region/selected_fraction``, their share of all tokens, and the mean ``(log r_t)^2`` over
    ``T``, ``trust_region/second_moment``, and over its tokens with ``M_t = 1``,
    ``trust_region/second_moment_kept``.

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
    keys = {"selected": ("B T", "bool", "tokens that a part selects from the whole optimiser step")}
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
