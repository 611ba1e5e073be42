"""Running mean and variance, merged exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.functional.group_statistics import is_rounding

# Least divisor.
_LEAST_STD = 1e-6
Moments = tuple[Tensor, Tensor, Tensor]


def merged_moments(count: Tensor, mean: Tensor, squares: Tensor, values: Tensor) -> Moments:
    """Merge the moments of earlier and of further values (Chan's formula).

    ``M' = M + d m / (n + m)``, ``S' = S + S_new + d^2 n m / (n + m)``, ``d = mean_new - M``. One
    batch or several batches give the same moments.

    Args:
        count: n, number of earlier values, a scalar.
        mean: M, shape ``[...]``.
        squares: S, the sum of squared distances from the mean, shape ``[...]``.
        values: m further values, shape ``[..., m]``; m may be 0.

    Returns:
        The same three moments, of all values.

    Source:
        Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance", eq. 2.1.

    Examples:
        >>> zero = torch.zeros(())
        >>> seen = merged_moments(zero, zero, zero, torch.tensor([1.0, 3.0]))
        >>> [float(moment) for moment in merged_moments(*seen, torch.tensor([5.0]))]
        [3.0, 3.0, 8.0]
    """
    number = values.shape[-1]
    if not number:
        return count, mean, squares
    total, new = count + number, values.mean(-1)
    shift = new - mean
    spread = (values - new[..., None]).square().sum(-1)
    squares = squares + spread + shift**2 * count * number / total
    return total, mean + shift * number / total, squares


def running_std(count: Tensor, mean: Tensor, squares: Tensor) -> Tensor:
    """Return the population std of running moments to divide by, at least 1e-6.

    Args:
        count: number of values, a scalar.
        mean: shape ``[...]``.
        squares: the sum of squared distances from the mean, shape ``[...]``.

    Returns:
        Shape ``[...]``; infinite if the values differ only by rounding, so that they become 0.

    Examples:
        >>> running_std(torch.tensor(2.0), torch.tensor([2.0, 120.0]), torch.tensor([2.0, 1e-11]))
        tensor([1., inf])
    """
    std = (squares / count.clamp(min=1)).sqrt()
    equal = is_rounding(mean.float(), (mean + std).float())
    return torch.where(equal, torch.inf, std.clamp(min=_LEAST_STD))
