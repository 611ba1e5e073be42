"""Selection by a mask."""

from __future__ import annotations

import torch
from torch import Tensor


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """Values inside the mask, exact 0 outside, whatever stands there (NaN included)."""
    return torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))
