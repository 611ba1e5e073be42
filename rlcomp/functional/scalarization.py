"""Scalarizations of objectives.

A non-linear scalarisation ``g`` applies to the *expected* returns (SER), not to the reward of each
sample (ESR). Its policy gradient equals the gradient of the linear sum with weights ``dg/dJ`` at
the current expected returns. The weights below are for ascent.

``returns`` J, ``utopia`` z (the best returns), ``weights`` w and results of ``*_weights`` are
``[K]``; returns are in reward units, weights dimensionless. Scalarised returns are scalars in
reward units.
"""

from __future__ import annotations

import torch
from torch import Tensor


def chebyshev(returns: Tensor, utopia: Tensor, weights: Tensor, rho: float) -> Tensor:
    """Compute the (augmented) weighted Chebyshev scalarisation, to be minimised.

    ``max_i w_i (z_i - J_i) + rho * sum_i w_i (z_i - J_i)``, with ``rho`` 1e-4 to 1e-2, or 0 for the
    maximum alone.

    Source: Steuer & Choo 1983 (augmented weighted Chebyshev); Bowman 1976 (rho = 0).

    Examples:
        >>> J, w = torch.tensor([-0.2, -0.5]), torch.tensor([0.5, 0.5])
        >>> chebyshev(J, torch.zeros(2), w, 0.0)
        tensor(0.2500)
    """
    short = weights * (utopia - returns)
    return short.max() + rho * short.sum()


def chebyshev_weights(returns: Tensor, utopia: Tensor, weights: Tensor, rho: float) -> Tensor:
    """Compute the Chebyshev weights, ``-d chebyshev / dJ = w_i (1[i = argmax] + rho)``.

    Tied objectives share the maximum equally (a subgradient).

    Examples:
        >>> J, w = torch.tensor([-0.2, -0.5]), torch.tensor([0.5, 0.5])
        >>> chebyshev_weights(J, torch.zeros(2), w, 0.01)
        tensor([0.0050, 0.5050])
    """
    short = weights * (utopia - returns)
    worst = (short == short.max()).to(weights.dtype)
    return weights * (worst / worst.sum() + rho)


def smooth_chebyshev(returns: Tensor, utopia: Tensor, weights: Tensor, mu: float) -> Tensor:
    """Compute the smooth Chebyshev scalarisation, ``mu * logsumexp_i(w_i (z_i - J_i) / mu)``.

    To be minimised; it lies between the maximum ``max_i w_i (z_i - J_i)`` and the maximum plus
    ``mu log K``. ``mu``, above 0, is in reward units.

    Source: Lin et al. 2024, arXiv:2402.19078, eq. 8.

    Examples:
        >>> J, w = torch.tensor([-0.2, -0.5]), torch.tensor([0.5, 0.5])
        >>> smooth_chebyshev(J, torch.zeros(2), w, 0.1)
        tensor(0.2701)
    """
    return mu * torch.logsumexp(weights * (utopia - returns) / mu, 0)


def smooth_chebyshev_weights(returns: Tensor, utopia: Tensor, weights: Tensor, mu: float) -> Tensor:
    """Compute the smooth Chebyshev weights, ``-dS / dJ = w * softmax(w (z - J) / mu)``.

    ``S`` is :func:`smooth_chebyshev`.

    Examples:
        >>> smooth_chebyshev_weights(torch.zeros(2), torch.zeros(2), torch.ones(2), 0.1)
        tensor([0.5000, 0.5000])
    """
    return weights * torch.softmax(weights * (utopia - returns) / mu, 0)


def dual_ascent(multipliers: Tensor, returns: Tensor, thresholds: Tensor, step: float) -> Tensor:
    """Update Lagrange multipliers by dual ascent: ``max(0, lambda_i + step * (c_i - J_i))``.

    ``multipliers`` ``lambda``, ``returns`` ``J``, ``thresholds`` ``c`` and the result are ``[K]``.
    A multiplier grows while its return is below its threshold; a NaN return leaves it unchanged.

    Source: Altman 1999 (constrained MDPs); Tessler et al. 2018, arXiv:1805.11074, eq. 9.

    Examples:
        >>> dual_ascent(torch.ones(2), torch.tensor([0.0, 9.0]), torch.ones(2), 0.5)
        tensor([1.5000, 0.0000])
    """
    moved = (multipliers + step * (thresholds - returns)).clamp(min=0)
    return torch.where(returns.isnan(), multipliers, moved)


def projection(values: Tensor) -> float:
    """Project 0 onto ``[min a, max a]`` (PAMA).

    The result is ``sum_i c_i a_i`` for the ``c`` on the simplex that minimise its absolute value.
    ``values`` ``a`` ``[K]`` are the mean advantages of the objectives.

    Source: He et al. 2025, arXiv:2508.07768, theorem 1.

    Examples:
        >>> projection(torch.tensor([0.75, 0.5])), projection(torch.tensor([-1.0, 2.0, 0.5]))
        (0.5, 0.0)
    """
    low, high = float(values.min()), float(values.max())
    return min(max(0.0, low), high)


def scalar_weights(values: Tensor) -> Tensor:
    """Compute PAMA's weights on the simplex, for which ``sum_i c_i a_i`` is :func:`projection`.

    All above 0: only the smallest has a weight. All below 0: only the largest. Otherwise the
    smallest and the largest have the weights that sum to 0; more than two objectives have many
    other solutions. Tied objectives share their weight equally. Float64, on the CPU.

    Source: He et al. 2025, arXiv:2508.07768, theorem 1; the choice of weights is this project's.

    Examples:
        >>> scalar_weights(torch.tensor([0.75, 0.5])).tolist()
        [0.0, 1.0]
    """
    values = values.detach().double().cpu()
    low, high = values.min(), values.max()
    lowest, highest = _equal_weights(values == low), _equal_weights(values == high)
    if float(low) >= 0:
        return lowest
    if float(high) <= 0:
        return highest
    # Divide first: the difference of two tiny values would be 0.
    share = 1 / (1 - low / high)
    return share * lowest + (1 - share) * highest


def _equal_weights(selected: Tensor) -> Tensor:
    return selected.double() / selected.sum()
