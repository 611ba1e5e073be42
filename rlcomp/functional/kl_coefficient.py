"""Updates of KL and entropy coefficients: adaptive, doubling, scheduled."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor

Unit = Literal["token", "sequence"]

# Bounds of a doubled coefficient, so that it can come back.
_LEAST, _MOST = 1e-8, 1e8

# In units of the target. The log-probs of equal policies differ by rounding: a smaller KL counts as
# 0 and does not move the coefficient.
_AT_REST = 1e-4


def mean_kl(kl: Tensor, mask: Tensor, unit: Unit) -> float:
    """Compute the mean KL over non-empty responses, per token or per response.

    Args:
        kl: shape ``[B, T]``, nats, 0 outside the mask.
        mask: shape ``[B, T]``, bool.
        unit: ``"sequence"``: nats per response; ``"token"``: mean over the tokens of each response.

    Returns:
        The mean over responses, in nats; NaN where there is none.

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, section 2.2 (per response).

    Examples:
        >>> import torch
        >>> kl, mask = torch.tensor([[1.0, 3.0], [4.0, 0.0]]), torch.tensor([[1, 1], [1, 0]]).bool()
        >>> mean_kl(kl, mask, "sequence"), mean_kl(kl, mask, "token")
        (4.0, 3.0)
    """
    lengths = mask.sum(1)
    filled = lengths > 0
    sums = kl.detach().double().sum(1)[filled]
    return float((sums / lengths[filled] if unit == "token" else sums).mean())


def adaptive_kl_coef(
    kl_coef: float, kl: float, *, target: float, horizon: float, num_sequences: int
) -> float:
    """Do one step of the proportional controller: ``beta * (1 + e * n / horizon)``.

    ``e = clip(kl / target - 1, -0.2, 0.2)``. A batch counts as at most one horizon, so that a step
    changes the coefficient by at most 20 % and keeps its sign. The coefficient stays the same while
    the policy equals the reference (KL within a ten-thousandth of the target): there the KL is 0 at
    every coefficient, and a phase that trains only a critic would take the coefficient to 0.

    Args:
        kl_coef: beta, in reward units per nat.
        kl: measured KL, nats; a value that is not finite leaves the coefficient as it is.
        target: nats, in the unit of ``kl``.
        horizon: time constant of the controller, in responses.
        num_sequences: number of responses in the measurement of ``kl``.

    Returns:
        The next beta, in reward units per nat; ``kl_coef`` times a factor in [0.8, 1.2].

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, section 2.2.

    Examples:
        >>> round(adaptive_kl_coef(0.2, 9.0, target=6.0, horizon=10000, num_sequences=256), 6)
        0.201024
    """
    if not math.isfinite(kl) or _at_rest(kl, target):
        return kl_coef
    error = min(max(kl / target - 1, -0.2), 0.2)
    return kl_coef * (1 + error * min(num_sequences / horizon, 1.0))


def doubling_kl_coef(kl_coef: float, kl: float, *, target: float) -> float:
    """Do one update of PPO's adaptive KL penalty.

    ``beta <- 2 beta`` if ``KL > 1.5 target``, ``beta / 2`` if ``KL < target / 1.5``. No update
    while both policies are equal (KL below 1e-4 of the target), since there the KL is 0 for any
    beta.

    Args:
        kl_coef: beta, in reward or advantage units per nat.
        kl: measured KL, nats; a value that is not finite leaves the coefficient as it is.
        target: nats, in the unit of ``kl``.

    Returns:
        The next beta, between 1e-8 and 1e8.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, section 4.

    Examples:
        >>> [doubling_kl_coef(1.0, kl, target=0.01) for kl in (0.02, 0.01, 0.005)]
        [2.0, 1.0, 0.5]
    """
    if not math.isfinite(kl) or _at_rest(kl, target) or target / 1.5 <= kl <= 1.5 * target:
        return kl_coef
    return min(2 * kl_coef, _MOST) if kl > target else max(kl_coef / 2, _LEAST)


def _at_rest(kl: float, target: float) -> bool:
    return abs(kl) < _AT_REST * target


def between(start: float, end: float, progress: float, shape: Literal["linear", "cosine"]) -> float:
    """Interpolate from ``start`` to ``end``, linearly or by a half-cosine.

    Args:
        start: value at progress 0.
        end: value at progress 1 and beyond.
        progress: at least 0; values above 1 count as 1.
        shape: shape of the schedule.

    Returns:
        A value between the two.

    Source:
        Loshchilov & Hutter 2016, arXiv:1608.03983, eq. 5 (the cosine).

    Examples:
        >>> [round(between(1.0, 0.0, p, "cosine"), 4) for p in (0.0, 0.25, 0.5, 2.0)]
        [1.0, 0.8536, 0.5, 0.0]
    """
    share = min(progress, 1.0)
    if shape == "cosine":
        share = (1 - math.cos(math.pi * share)) / 2
    return (1 - share) * start + share * end


def adaptive_entropy_coef(
    coef: float, entropy: float, *, target: float, step: float, maximum: float
) -> float:
    """Do one update of the adaptive entropy coefficient (Skywork-OR1).

    ``c <- min(c + step, maximum)`` if ``H <= target``, else ``max(c - step, 0)``.

    Args:
        coef: weight of the entropy bonus.
        entropy: mean of the last optimiser step, nats a token; NaN means no update.
        target: nats a token.
        step: size of the step.
        maximum: the coefficient stays in ``[0, maximum]``.

    Returns:
        The next coefficient.

    Source:
        He et al. 2025 (Skywork Open Reasoner 1), arXiv:2505.22312.

    Examples:
        >>> adaptive_entropy_coef(0.01, 0.1, target=0.2, step=0.005, maximum=1.0)
        0.015
    """
    if math.isnan(entropy):
        return coef
    return min(coef + step, maximum) if entropy <= target else max(coef - step, 0.0)
