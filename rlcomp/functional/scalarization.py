"""Scalarizations of objectives.

A non-linear scalarisation ``g`` applies to the *expected* returns (SER), not to the reward of each
sample (ESR). Its policy gradient equals the gradient of the linear sum with weights ``dg/dJ`` at
the current expected returns. The weights below are for ascent.
"""

from __future__ import annotations

import torch
from torch import Tensor


def chebyshev(returns: Tensor, utopia: Tensor, weights: Tensor, rho: float) -> Tensor:
    """Compute the (augmented) weighted Chebyshev scalarisation, to be minimised.

    ``max_i w_i (z_i - J_i) + rho * sum_i w_i (z_i - J_i)``.

    Args:
        returns: J, expected return of each objective, shape ``[K]``, in reward units.
        utopia: z, best return of each objective, shape ``[K]``, in reward units.
        weights: a factor for each objective, shape ``[K]``.
        rho: share of the sum (the augmented form; 1e-4 to 1e-2); 0 for the maximum alone.

    Returns:
        Scalar.

    Source:
        Steuer & Choo 1983 (augmented weighted Chebyshev); Bowman 1976 (rho = 0).

    Examples:
        >>> J, w = torch.tensor([-0.2, -0.5]), torch.tensor([0.5, 0.5])
        >>> chebyshev(J, torch.zeros(2), w, 0.0)
        tensor(0.2500)
    """
    short = weights * (utopia - returns)
    return short.max() + rho * short.sum()


def chebyshev_weights(returns: Tensor, utopia: Tensor, weights: Tensor, rho: float) -> Tensor:
    """Compute the Chebyshev weights: ``-d chebyshev / dJ``.

    ``w_i (1[i = argmax] + rho)``; tied objectives share the maximum equally (a subgradient).

    Args:
        returns: shape ``[K]``, in reward units.
        utopia: shape ``[K]``, in reward units.
        weights: shape ``[K]``.
        rho: share of the sum.

    Returns:
        Shape ``[K]``.

    Source:
        As :func:`chebyshev`.

    Examples:
        >>> J, w = torch.tensor([-0.2, -0.5]), torch.tensor([0.5, 0.5])
        >>> chebyshev_weights(J, torch.zeros(2), w, 0.01)
        tensor([0.0050, 0.5050])
    """
    short = weights * (utopia - returns)
    worst = (short == short.max()).to(weights.dtype)
    return weights * (worst / worst.sum() + rho)


def smooth_chebyshev(returns: Tensor, utopia: Tensor, weights: Tensor, mu: float) -> Tensor:
    """Compute the smooth Chebyshev scalarisation, to be minimised.

    ``mu * logsumexp_i(w_i (z_i - J_i) / mu)``.

    It lies between the maximum and the maximum plus ``mu ln K``.

    Args:
        returns: shape ``[K]``, in reward units.
        utopia: shape ``[K]``, in reward units.
        weights: shape ``[K]``.
        mu: above 0; the smaller, the closer to the maximum.

    Returns:
        Scalar.

    Source:
        Lin et al. 2024, arXiv:2402.19078, eq. 8.

    Examples:
        >>> J, w = torch.tensor([-0.2, -0.5]), torch.tensor([0.5, 0.5])
        >>> smooth_chebyshev(J, torch.zeros(2), w, 0.1)
        tensor(0.2701)
    """
    return mu * torch.logsumexp(weights * (utopia - returns) / mu, 0)


def smooth_chebyshev_weights(returns: Tensor, utopia: Tensor, weights: Tensor, mu: float) -> Tensor:
    """Compute the smooth Chebyshev weights, ``-dS / dJ = w * softmax(w (z - J) / mu)``.

    Args:
        returns: shape ``[K]``, in reward units.
        utopia: shape ``[K]``, in reward units.
        weights: shape ``[K]``.
        mu: above 0.

    Returns:
        Shape ``[K]``.

    Source:
        Lin et al. 2024, arXiv:2402.19078, eq. 8.

    Examples:
        >>> smooth_chebyshev_weights(torch.zeros(2), torch.zeros(2), torch.ones(2), 0.1)
        tensor([0.5000, 0.5000])
    """
    return weights * torch.softmax(weights * (utopia - returns) / mu, 0)


def dual_ascent(multipliers: Tensor, returns: Tensor, thresholds: Tensor, step: float) -> Tensor:
    """Update Lagrange multipliers by dual ascent: ``max(0, lambda_i + step * (c_i - J_i))``.

    Args:
        multipliers: lambda, shape ``[K]``, not negative.
        returns: J, shape ``[K]``, in reward units; NaN leaves the multiplier unchanged.
        thresholds: c, shape ``[K]``, in reward units.
        step: per reward unit.

    Returns:
        Shape ``[K]``.

    Source:
        Altman 1999 (constrained MDPs); Tessler et al. 2018, arXiv:1805.11074, eq. 9.

    Examples:
        >>> dual_ascent(torch.ones(2), torch.tensor([0.0, 9.0]), torch.ones(2), 0.5)
        tensor([1.5000, 0.0000])
    """
    moved = (multipliers + step * (thresholds - returns)).clamp(min=0)
    return torch.where(returns.isnan(), multipliers, moved)


def projection(values: Tensor) -> float:
    """Project 0 onto ``[min a, max a]``: the signed least ``|sum_i c_i a_i|`` (PAMA, theorem 1).

    Args:
        values: a, mean advantage of each objective, shape ``[K]``, in reward units.

    Returns:
        A number in reward units.

    Source:
        He et al. 2025, arXiv:2508.07768, theorem 1.

    Examples:
        >>> import torch
        >>> projection(torch.tensor([0.75, 0.5])), projection(torch.tensor([-1.0, 2.0, 0.5]))
        (0.5, 0.0)
    """
    low, high = float(values.min()), float(values.max())
    return min(max(0.0, low), high)


def scalar_weights(values: Tensor) -> Tensor:
    """Compute PAMA's weights on the simplex, for which ``sum_i c_i a_i`` is :func:`projection`.

    All above 0: only the smallest has a weight. All below 0: only the largest. Otherwise the
    smallest and the largest have the weights that sum to 0; more than two objectives have many
    other solutions. Tied objectives share their weight equally.

    Args:
        values: a, mean advantage of each objective, shape ``[K]``, in reward units.

    Returns:
        Shape ``[K]``, float64, on the CPU; not negative, sums to 1.

    Source:
        He et al. 2025, arXiv:2508.07768, theorem 1; the choice of weights is this project's.

    Examples:
        >>> import torch
        >>> scalar_weights(torch.tensor([0.75, 0.5])).tolist()
        [0.0, 1.0]
    """
    values = values.detach().double().cpu()
    low, high = values.min(), values.max()
    lowest, highest = _shared(values == low), _shared(values == high)
    if float(low) >= 0:
        return lowest
    if float(high) <= 0:
        return highest
    # Divide first: the difference of two tiny values would be 0.
    share = 1 / (1 - low / high)
    return share * lowest + (1 - share) * highest


def _shared(among: Tensor) -> Tensor:
    return among.double() / among.sum()
