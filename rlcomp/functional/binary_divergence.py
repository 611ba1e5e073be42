"""Divergences of two policies by the sampled token alone: total variation, KL (DPPO)."""

from __future__ import annotations

import torch
from torch import Tensor

# Probabilities are clamped this far from 0 and 1, where the logs of a KL are infinite. Float32 can
# tell 1 - EDGE from 1.
EDGE = 1e-7


def binary_total_variation(old_log_probs: Tensor, log_probs: Tensor) -> Tensor:
    """Compute the total variation of "this token or another": ``|pi(a) - pi_old(a)|``.

    It is a lower bound of the total variation of the whole distributions.

    Args:
        old_log_probs: of the token, shape ``[B, T]``, nats.
        log_probs: shape ``[B, T]``, nats.

    Returns:
        Shape ``[B, T]``, in [0, 1].

    Source:
        Qi et al. 2026 (DPPO), arXiv:2602.04879, Binary-TV.

    Examples:
        >>> binary_total_variation(torch.tensor([[0.25]]).log(), torch.tensor([[0.5]]).log())
        tensor([[0.2500]])
    """
    return (log_probs.exp() - old_log_probs.exp()).abs()


def binary_kl(old_log_probs: Tensor, log_probs: Tensor) -> Tensor:
    """Compute ``KL(pi_old || pi)`` of "this token or another".

    ``p_old log(p_old / p) + (1 - p_old) log((1 - p_old) / (1 - p))``: a lower bound of the KL of
    the whole distributions.

    Args:
        old_log_probs: of the token, shape ``[B, T]``, nats.
        log_probs: shape ``[B, T]``, nats.

    Returns:
        Shape ``[B, T]``, nats, at least 0 up to rounding.

    Source:
        Qi et al. 2026 (DPPO), arXiv:2602.04879, Binary-KL.

    Examples:
        >>> binary_kl(torch.tensor([[0.25]]).log(), torch.tensor([[0.5]]).log())
        tensor([[0.1308]])
    """
    old, new = (values.exp().clamp(EDGE, 1 - EDGE) for values in (old_log_probs, log_probs))
    return old * (old.log() - new.log()) + (1 - old) * (torch.log1p(-old) - torch.log1p(-new))
