"""Selection by a mask."""

from __future__ import annotations

import torch
from torch import Tensor


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """Masked fill: values inside the mask, exact 0 outside, whatever stands there.

    ``y = x where m, else 0``; not ``x m``, whose value and gradient are NaN where ``x`` is.

    Args:
        values: any shape; NaN and infinities outside the mask do no harm.
        mask: bool, a shape that broadcasts with that of the values.

    Returns:
        The broadcast shape, in the dtype and units of the values.

    Examples:
        >>> masked(torch.tensor([1.0, torch.nan]), torch.tensor([True, False]))
        tensor([1., 0.])
    """
    return torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))
