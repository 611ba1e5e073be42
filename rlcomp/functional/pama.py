"""PAMA: closed-form weights of objectives from their mean advantages."""

from __future__ import annotations

from torch import Tensor


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
