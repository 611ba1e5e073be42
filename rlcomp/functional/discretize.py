"""Discretisation of numbers into bins, and back; this turns a vector into tokens."""

from __future__ import annotations

from torch import Tensor


def to_bins(value: Tensor, low: Tensor, high: Tensor, num_bins: int) -> Tensor:
    """Return the index of the nearest of ``num_bins`` evenly spaced values, ``low`` to ``high``.

    ``k = round((n - 1) (x - low) / (high - low))``; values outside go to the nearest end.

    Args:
        value: shape ``[..., A]``.
        low: the value of bin 0, ``[A]`` or a scalar.
        high: the value of the last bin, same shape.
        num_bins: ``n``, at least 2.

    Returns:
        Shape ``[..., A]``, int64, in ``0..n - 1``.

    Examples:
        >>> import torch
        >>> low, high = torch.tensor(-1.0), torch.tensor(1.0)
        >>> to_bins(torch.tensor([-3.0, 0.1, 1.0]), low, high, 5)
        tensor([0, 2, 4])
    """
    share = (value - low) / (high - low)
    return (share.clamp(0, 1) * (num_bins - 1)).round().long()


def of_bins(number: Tensor, low: Tensor, high: Tensor, num_bins: int) -> Tensor:
    """Return the value of a bin: ``low + (high - low) k / (n - 1)``.

    Args:
        number: ``k``, shape ``[..., A]``, int64.
        low: the value of bin 0, ``[A]`` or a scalar.
        high: the value of the last bin, same shape.
        num_bins: ``n``, at least 2.

    Examples:
        >>> import torch
        >>> of_bins(torch.tensor([0, 2, 4]), torch.tensor(-1.0), torch.tensor(1.0), 5)
        tensor([-1.,  0.,  1.])
    """
    return low + (high - low) * number / (num_bins - 1)
