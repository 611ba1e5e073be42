"""Updates of KL and entropy coefficients: adaptive, doubling, scheduled."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor

Unit = Literal["token", "sequence"]

# Bounds of a doubled coefficient, so that it can recover.
_MIN_COEF, _MAX_COEF = 1e-8, 1e8

# In units of the target. The log-probs of equal policies differ by rounding: a smaller KL counts as
# 0 and does not move the coefficient.
_NEGLIGIBLE = 1e-4


def mean_kl(kl: Tensor, mask: Tensor, unit: Unit) -> float:
    """Compute the mean KL over non-empty responses, in nats; NaN if all responses are empty.

    The KL of a response is the sum over its tokens (``sequence``) or their mean (``token``). ``kl``
    and ``mask`` are ``[B, T]``; ``kl`` is 0 outside the mask.

    Source: Ziegler et al. 2019, arXiv:1909.08593, section 2.2 (per response).

    Examples:
        >>> import torch
        >>> kl, mask = torch.tensor([[1.0, 3.0], [4.0, 0.0]]), torch.tensor([[1, 1], [1, 0]]).bool()
        >>> mean_kl(kl, mask, "sequence"), mean_kl(kl, mask, "token")
        (4.0, 3.0)
    """
    lengths = mask.sum(1)
    non_empty = lengths > 0
    sums = kl.detach().double().sum(1)[non_empty]
    return float((sums / lengths[non_empty] if unit == "token" else sums).mean())


def adaptive_kl_coef(
    kl_coef: float, kl: float, *, target: float, horizon: float, num_sequences: int
) -> float:
    """Return the coefficient after a proportional step: ``beta * (1 + e * n / horizon)``.

    ``e = clip(kl / target - 1, -0.2, 0.2)``, with ``kl`` and ``target`` in nats, ``n`` and
    ``horizon`` in responses. A batch counts as at most one horizon, so that a step changes the
    coefficient by at most 20 % and keeps its sign.

    A KL that is not finite, or is below 1e-4 of the target, leaves the coefficient as it is. While
    the policy equals the reference the KL is 0 at every coefficient: a phase that trains only a
    critic would otherwise reduce the coefficient to 0.

    Source: Ziegler et al. 2019, arXiv:1909.08593, section 2.2.

    Examples:
        >>> round(adaptive_kl_coef(0.2, 9.0, target=6.0, horizon=10000, num_sequences=256), 6)
        0.201024
    """
    if not math.isfinite(kl) or _negligible(kl, target):
        return kl_coef
    error = min(max(kl / target - 1, -0.2), 0.2)
    return kl_coef * (1 + error * min(num_sequences / horizon, 1.0))


def doubling_kl_coef(kl_coef: float, kl: float, *, target: float) -> float:
    """Return the coefficient after an update of PPO's adaptive KL penalty, in [1e-8, 1e8].

    ``beta <- 2 beta`` if ``KL > 1.5 target``, ``beta / 2`` if ``KL < target / 1.5``, with ``kl``
    and ``target`` in nats. A KL that is not finite, or is below 1e-4 of the target, leaves the
    coefficient as it is, for the reason in :func:`adaptive_kl_coef`.

    Source: Schulman et al. 2017, arXiv:1707.06347, section 4.

    Examples:
        >>> [doubling_kl_coef(1.0, kl, target=0.01) for kl in (0.02, 0.01, 0.005)]
        [2.0, 1.0, 0.5]
    """
    if not math.isfinite(kl) or _negligible(kl, target) or target / 1.5 <= kl <= 1.5 * target:
        return kl_coef
    return min(2 * kl_coef, _MAX_COEF) if kl > target else max(kl_coef / 2, _MIN_COEF)


def _negligible(kl: float, target: float) -> bool:
    return abs(kl) < _NEGLIGIBLE * target


def interpolate(
    start: float, end: float, progress: float, shape: Literal["linear", "cosine"]
) -> float:
    """Interpolate from ``start`` to ``end``, linearly or by a half-cosine.

    ``progress`` is at least 0; values above 1 count as 1.

    Source: Loshchilov & Hutter 2016, arXiv:1608.03983, eq. 5 (the cosine).

    Examples:
        >>> [round(interpolate(1.0, 0.0, p, "cosine"), 4) for p in (0.0, 0.25, 0.5, 2.0)]
        [1.0, 0.8536, 0.5, 0.0]
    """
    share = min(progress, 1.0)
    if shape == "cosine":
        share = (1 - math.cos(math.pi * share)) / 2
    return (1 - share) * start + share * end


def adaptive_entropy_coef(
    coef: float, entropy: float, *, target: float, step: float, maximum: float
) -> float:
    """Return the adaptive entropy coefficient after an update (Skywork-OR1).

    ``c <- min(c + step, maximum)`` if ``H <= target``, else ``max(c - step, 0)``. ``H`` is the mean
    of the last optimiser step, in nats per token; NaN means no update.

    Source: He et al. 2025 (Skywork Open Reasoner 1), arXiv:2505.22312.

    Examples:
        >>> adaptive_entropy_coef(0.01, 0.1, target=0.2, step=0.005, maximum=1.0)
        0.015
    """
    if math.isnan(entropy):
        return coef
    return min(coef + step, maximum) if entropy <= target else max(coef - step, 0.0)
