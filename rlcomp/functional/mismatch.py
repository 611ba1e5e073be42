"""Distances between two policies on tokens sampled by one of them."""

from __future__ import annotations

import torch
from torch import Tensor


def effective_sample_size(log_weight: Tensor) -> Tensor:
    """Compute the effective sample size of importance weights, ``(sum w)^2 / (n sum w^2)``.

    Args:
        log_weight: ``log w``, shape ``[n]``, nats.

    Returns:
        A scalar in (0, 1], float64: 1 if all weights are equal or if there are none.

    Source:
        Kong 1992, "A note on importance sampling using standardized weights".

    Examples:
        >>> effective_sample_size(torch.tensor([3.0, 1.0]).log())
        tensor(0.8000, dtype=torch.float64)
    """
    if not log_weight.numel():
        return torch.ones((), dtype=torch.float64, device=log_weight.device)
    # Scale all weights below 1, so that none overflows; a common factor cancels.
    weight = (log_weight.double() - log_weight.double().max()).exp()
    return weight.sum().square() / (weight.numel() * weight.square().sum())


def sampler_kl(log_weight: Tensor) -> Tensor:
    """Estimate the KL of the sampler from the trainer on the sampler's samples, ``exp(d) - 1 - d``.

    Args:
        log_weight: ``d = log pi_trainer(a) - log pi_sampler(a)`` of samples, any shape, nats.

    Returns:
        Terms of the same shape, >= 0, float64; their mean estimates ``KL(pi_sampler ||
        pi_trainer)``, nats.

    Source:
        Schulman 2020, "Approximating KL divergence", k3.

    Examples:
        >>> sampler_kl(torch.tensor([2.0]).log())  # 2 - 1 - log 2
        tensor([0.3069], dtype=torch.float64)
    """
    gap = log_weight.double()
    return torch.expm1(gap) - gap
