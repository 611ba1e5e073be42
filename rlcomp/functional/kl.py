"""Per-token estimators of KL(policy || reference), from samples of the policy."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlcomp.functional.ratio import log_ratio

Estimator = Literal["k1", "k2", "k3"]


def kl_estimate(
    log_probs: Tensor, ref_log_probs: Tensor, mask: Tensor, estimator: Estimator
) -> Tensor:
    """KL per token: ``d = log pi - log ref``; k1 = d, k2 = d^2 / 2, k3 = exp(-d) - 1 + d.

    As a loss only k2's gradient is that of KL(pi || ref); k1's is zero in expectation and k3's is
    that of KL(ref || pi). As a reward any of them is an estimate of the value.

    Args:
        log_probs: shape ``[B, T]``, nats.
        ref_log_probs: shape ``[B, T]``, nats.
        mask: shape ``[B, T]``, bool.
        estimator: which of the three.

    Returns:
        Shape ``[B, T]``, nats, 0 outside the mask.

    Source:
        Schulman 2020, "Approximating KL divergence".

    Examples:
        >>> one = torch.ones(1, 1, dtype=torch.bool)
        >>> kl_estimate(torch.tensor([[-2.0]]), torch.tensor([[-2.5]]), one, "k3")
        tensor([[0.1065]])
    """
    d = log_ratio(log_probs, ref_log_probs, mask)
    if estimator == "k1":
        return d
    if estimator == "k2":
        return d**2 / 2
    return torch.exp(-d) - 1 + d
