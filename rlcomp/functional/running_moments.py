"""Running mean and variance, merged exactly."""

from __future__ import annotations

from torch import Tensor

Moments = tuple[Tensor, Tensor, Tensor]


def merged_moments(count: Tensor, mean: Tensor, squares: Tensor, values: Tensor) -> Moments:
    """Chan's formula: moments of what was seen so far, and of further values.

    ``M' = M + d m / (n + m)``, ``S' = S + S_new + d^2 n m / (n + m)``, ``d = mean_new - M``: in one
    batch or in several, the moments are the same.

    Args:
        count: n, values seen so far, a scalar.
        mean: M, shape ``[...]``.
        squares: S, the sum of squared distances from the mean, shape ``[...]``.
        values: m further ones, shape ``[..., m]``; m may be 0.

    Returns:
        The same three, of all.

    Source:
        Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance", eq. 2.1.

    Examples:
        >>> import torch
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
