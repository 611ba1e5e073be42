"""Moments of values: whitening, running moments, second moments."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.functional.clip_bounds import highest
from rlcomp.functional.group_statistics import is_rounding
from rlcomp.functional.returns import inside

# Added to the variance before the square root.
_EPSILON = 1e-8


def whiten(values: Tensor, mask: Tensor, shift_mean: bool = True) -> Tensor:
    """Whiten inside the mask: ``(x - mean(x)) / sqrt(var(x) + 1e-8)``, unbiased variance.

    Args:
        values: shape ``[B, T]``.
        mask: shape ``[B, T]``: entries that count in the statistics.
        shift_mean: False adds the mean back.

    Returns:
        Shape ``[B, T]``, dimensionless; 0 outside the mask. With ``shift_mean`` also exactly 0 for
        one entry and for entries that are equal up to rounding.

    Raises:
        ShapeError: the two differ in shape.
        NumericalError: a value inside the mask is not finite.

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, the authors' code.

    Examples:
        >>> whiten(torch.tensor([[1.0, 3.0, 9.0]]), torch.tensor([[True, True, False]]))
        tensor([[-0.7071,  0.7071,  0.0000]])
    """
    mask = mask.bool()
    selected = inside("values", values, mask)
    chosen = selected[mask]
    if not len(chosen) or bool(is_rounding(chosen.min(), chosen.max())):
        # The mean of equal numbers rounds; a division would enlarge the difference to it.
        return torch.zeros_like(selected) if shift_mean else selected
    mean, variance = chosen.mean(), chosen.var()
    scaled = (selected - mean) / (variance + _EPSILON).sqrt()
    return torch.where(mask, scaled if shift_mean else scaled + mean, torch.zeros_like(selected))


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


def second_moment_outliers(log_ratio: Tensor, eligible: Tensor, bound: float) -> Tensor:
    """Return the fewest tokens to drop for a mean ``(log r)^2`` of at most ``bound`` (M2PO).

    The largest are dropped first. Values within 1e-5 of the last dropped one are dropped too, so
    that the order of rows does not matter.

    Args:
        log_ratio: shape ``[B, T]``, nats; of the whole optimiser step.
        eligible: tokens that count and may be dropped, shape ``[B, T]``, bool.
        bound: largest mean, nats squared.

    Returns:
        Tokens to drop, shape ``[B, T]``, bool.

    Source:
        Zheng et al. 2025 (M2PO), arXiv:2510.01161, algorithm 1.

    Examples:
        >>> second_moment_outliers(torch.tensor([[0.1, 1.0, 0.2]]), torch.ones(1, 3).bool(), 0.05)
        tensor([[False,  True, False]])
    """
    square = log_ratio.detach().square()
    ascending = square[eligible].double().sort().values
    number = torch.arange(1, len(ascending) + 1, device=ascending.device)
    # The mean of the n least rises with n: drop as many as there are means above the bound.
    count = int((ascending.cumsum(0) / number > bound).sum())
    return highest(square, eligible, count) if count else torch.zeros_like(eligible)
