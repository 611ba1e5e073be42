"""Scores of answers for preference losses: log-ratio, log-prob, log-odds and their variants.

For a row with ``n`` response tokens ``t``: ``mean`` is ``a = (1 / n) sum_t log pi_t``, and
``log_ratio`` is ``h = sum_t log (pi_t / pi_ref_t)``, in nats, ``[B]``. Scores are ``[B]``. Values
of tokens and masks are ``[B, T]``.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.functional.reduction import masked

Length = Literal["sum", "mean"]
Divergence = Literal["forward_kl", "jensen_shannon", "alpha"]

# exp(2 * 40) is still finite in float32, for links that square a score.
_LARGEST_EXPONENT = 40.0
# Log-odds are infinite at probability 1.
_LARGEST_LOG_PROB = -1e-7


def reduce_tokens(values: Tensor, mask: Tensor, length: Length) -> Tensor:
    """Sum or average over the response tokens, ``[B]``; 0 for an empty response.

    Examples:
        >>> values, mask = torch.tensor([[9.0, -1.0, -2.0]]), torch.tensor([[False, True, True]])
        >>> reduce_tokens(values, mask, "sum"), reduce_tokens(values, mask, "mean")
        (tensor([-3.]), tensor([-1.5000]))
    """
    total = masked(values, mask).sum(1)
    return total if length == "sum" else total / mask.sum(1).clamp(min=1)


def token_log_ratio(log_probs: Tensor, ref_log_probs: Tensor, mask: Tensor) -> Tensor:
    """Compute ``log pi - log pi_ref`` of each response token, not clamped, ``[B, T]``.

    0 outside the mask; no gradient in the reference.
    """
    # Mask both before the subtraction: NaN outside the mask must not reach the gradient.
    return masked(log_probs, mask) - masked(ref_log_probs.detach(), mask)


def power_transform(mean: Tensor, alpha: float) -> Tensor:
    """Compute AlphaPO's ``(1 - exp(-alpha a)) / alpha``, or ``a`` (SimPO) where ``alpha`` is 0.

    An exponent above 40 counts as 40, and then has no gradient.

    Source: Gupta et al. 2025 (AlphaPO), arXiv:2501.03884, eq. 5.

    Examples:
        >>> power_transform(torch.tensor([-2.0]), 0.5)
        tensor([-3.4366])
    """
    if alpha == 0:
        return mean
    return (1 - (-alpha * mean).clamp(max=_LARGEST_EXPONENT).exp()) / alpha


def log_odds(mean: Tensor) -> Tensor:
    """Compute ORPO's ``log(p / (1 - p))``, ``p = exp(a)``; finite even where the answer is certain.

    Source: Hong et al. 2024 (ORPO), arXiv:2403.07691, eq. 4.

    Examples:
        >>> log_odds(torch.tensor([-1.25, -1.0]))
        tensor([-0.9124, -0.5413])
    """
    mean = mean.clamp(max=_LARGEST_LOG_PROB)
    likely = mean > -math.log(2)
    # Each branch gets values at which its gradient is finite too.
    near = torch.log(-torch.expm1(torch.where(likely, mean, -1.0)))
    far = torch.log1p(-torch.where(likely, -1.0, mean).exp())
    return mean - torch.where(likely, near, far)


def dpop_score(log_ratio: Tensor, chosen: Tensor, penalty: float) -> Tensor:
    """Penalise a chosen answer that has become less likely (DPOP).

    ``h_w - penalty max(0, -h_w)`` for a chosen answer, ``h_l`` for a rejected one: the penalty is
    inside the link.

    Source: Pal et al. 2024 (Smaug), arXiv:2402.13228, eq. 3.

    Examples:
        >>> dpop_score(torch.tensor([-0.5, -0.8]), torch.tensor([True, False]), 50.0)
        tensor([-25.5000,  -0.8000])
    """
    return log_ratio - penalty * torch.where(chosen, (-log_ratio).clamp(min=0), 0.0)


def divergence_score(log_ratio: Tensor, divergence: Divergence, alpha: float) -> Tensor:
    """Compute f-DPO's score ``f'(pi / pi_ref)`` for a divergence other than the reverse KL.

    ``1 - e^-h`` (forward KL), ``log 2 + log s(h)`` (Jensen-Shannon),
    ``(e^((alpha - 1) h) - 1) / (alpha - 1)`` (alpha divergence, ``alpha`` other than 1). The
    reverse KL's score is ``h``. Exponents above 40 count as 40, without a gradient. ``alpha`` is
    read only by the alpha divergence.

    Source: Wang et al. 2023 (f-DPO), arXiv:2309.16240, table 1; signs and constants as in trl
    1.16.0.

    Examples:
        >>> half = torch.tensor([-math.log(2.0)])  # the policy's share is half the reference's
        >>> divergence_score(half, "forward_kl", 0.5), divergence_score(half, "alpha", 0.5)
        (tensor([-1.]), tensor([-0.8284]))
    """
    if divergence == "jensen_shannon":
        return math.log(2) + F.logsigmoid(log_ratio)
    power = -1.0 if divergence == "forward_kl" else alpha - 1
    return ((power * log_ratio).clamp(max=_LARGEST_EXPONENT).exp() - 1) / power


def ld_dpo_score(values: Tensor, mask: Tensor, common: Tensor, alpha: float) -> Tensor:
    """Weight tokens beyond the common length of a pair's answers by ``alpha`` (LD-DPO).

    ``sum_{t <= q} x_t + alpha sum_{t > q} x_t``; ``common`` ``q`` ``[B]`` is the number of tokens
    of the pair's shorter answer, and ``t`` counts the response tokens from 1.

    Source: Liu et al. 2024 (LD-DPO), arXiv:2409.06411, eq. 9.

    Examples:
        >>> values, mask = torch.tensor([[-1.0, -2.0, -4.0]]), torch.ones(1, 3, dtype=torch.bool)
        >>> ld_dpo_score(values, mask, torch.tensor([1]), 0.5)
        tensor([-4.])
    """
    beyond = mask.cumsum(1) > common[:, None]
    return masked(values * torch.where(beyond, alpha, 1.0).to(values.dtype), mask).sum(1)


def forward_kl(log_distribution: Tensor, ref_log_distribution: Tensor, mask: Tensor) -> Tensor:
    """Sum the KL of the reference to the policy over the response tokens, ``[B]``.

    ``sum_t sum_v pi_ref(v | s_t) (log pi_ref(v | s_t) - log pi(v | s_t))``, in nats. The
    distributions are log-probs ``[B, T, V]``; no gradient in the reference.

    Source: Zeng et al. 2024 (TDPO), arXiv:2404.11999, definition 4.2.
    """
    ref = ref_log_distribution.detach()
    # -inf - -inf is NaN where both suppress a token; there the reference has no mass.
    support = mask[..., None] & ref.isfinite()
    gap = masked(ref, support) - masked(log_distribution, support)
    return (masked(ref.exp(), support) * gap).sum((1, 2))
