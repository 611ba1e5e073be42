"""Selection by a mask."""

from __future__ import annotations

import torch
from torch import Tensor


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """Return the values inside the mask and exact 0 outside, even where they are NaN.

    ``y = x where m, else 0``, and not ``x m``: its value and gradient are NaN where ``x`` is NaN.

    Args:
        values: any shape; NaN and infinities outside the mask do no harm.
        mask: bool, of a shape that broadcasts with the values.

    Returns:
        The broadcast shape, in the dtype and units of the values.

    Examples:
        >>> masked(torch.tensor([1.0, torch.nan]), torch.tensor([True, False]))
        tensor([1., 0.])
    """
    return torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))
