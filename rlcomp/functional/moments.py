"""Moments of values: whitening and running moments."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.functional.group_statistics import is_rounding
from rlcomp.functional.returns import finite_values

# Added to the variance before the square root, in squared units of the values.
_EPSILON = 1e-8


def whiten(values: Tensor, mask: Tensor, shift_mean: bool = True) -> Tensor:
    """Whiten inside the mask: ``(x - mean(x)) / sqrt(var(x) + 1e-8)``, unbiased variance.

    Shape ``[B, T]``, dimensionless, 0 outside the mask. Without ``shift_mean`` the mean is added
    back. Entries that are equal up to rounding become 0, or stay as they are without
    ``shift_mean``. ShapeError if the shapes differ; NumericalError if a value inside the mask is
    not finite.

    Source: Ziegler et al. 2019, arXiv:1909.08593, the authors' code.

    Examples:
        >>> whiten(torch.tensor([[1.0, 3.0, 9.0]]), torch.tensor([[True, True, False]]))
        tensor([[-0.7071,  0.7071,  0.0000]])
    """
    mask = mask.bool()
    selected = finite_values("values", values, mask)
    inside = selected[mask]
    if not len(inside) or bool(is_rounding(inside.min(), inside.max())):
        # The mean of equal values has a rounding error, and the division would enlarge it.
        return torch.zeros_like(selected) if shift_mean else selected
    mean, variance = inside.mean(), inside.var()
    scaled = (selected - mean) / (variance + _EPSILON).sqrt()
    return torch.where(mask, scaled if shift_mean else scaled + mean, torch.zeros_like(selected))


# Least standard deviation that values are divided by, in their units.
_LEAST_STD = 1e-6
# Count, mean, and sum of squared distances from the mean.
Moments = tuple[Tensor, Tensor, Tensor]


def merged_moments(count: Tensor, mean: Tensor, squares: Tensor, values: Tensor) -> Moments:
    """Merge the moments of earlier and of further values (Chan's formula).

    ``M' = M + d m / (n + m)``, ``S' = S + S_new + d^2 n m / (n + m)``, ``d = mean_new - M``. Return
    ``(n + m, M', S')``.

    Args:
        count: n, number of earlier values, a scalar.
        mean: M, shape ``[...]``.
        squares: S, the sum of squared distances from the mean, shape ``[...]``.
        values: m further values, shape ``[..., m]``; m may be 0.

    Source: Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance", eq. 2.1.

    Examples:
        >>> zero = torch.zeros(())
        >>> moments = merged_moments(zero, zero, zero, torch.tensor([1.0, 3.0]))
        >>> [float(moment) for moment in merged_moments(*moments, torch.tensor([5.0]))]
        [3.0, 3.0, 8.0]
    """
    number = values.shape[-1]
    if not number:
        return count, mean, squares
    total, new_mean = count + number, values.mean(-1)
    shift = new_mean - mean
    spread = (values - new_mean[..., None]).square().sum(-1)
    squares = squares + spread + shift**2 * count * number / total
    return total, mean + shift * number / total, squares


def running_std(count: Tensor, mean: Tensor, squares: Tensor) -> Tensor:
    """Return the population std of running moments, ``sqrt(S / n)``, at least 1e-6, as a divisor.

    Arguments are as in :func:`merged_moments`; the result has the shape of ``mean``. It is infinite
    if the values differ only by rounding: divided values are then 0.

    Examples:
        >>> running_std(torch.tensor(2.0), torch.tensor([2.0, 120.0]), torch.tensor([2.0, 1e-11]))
        tensor([1., inf])
    """
    std = (squares / count.clamp(min=1)).sqrt()
    equal = is_rounding(mean.float(), (mean + std).float())
    return torch.where(equal, torch.inf, std.clamp(min=_LEAST_STD))
