"""Masked whitening."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.functional.group_statistics import is_rounding
from rlcomp.functional.linear_recurrence import inside

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
