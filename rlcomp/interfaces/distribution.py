"""Distribution interface: points with known modes, for flows."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class HasModes(Protocol):
    """A distribution over points with known modes.

    Attributes:
        centres: the modes, ``[M, D]``.
    """

    centres: Tensor

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw points, ``[rows, D]``."""
        ...


def nearest_mode(points: Tensor, centres: Tensor) -> Tensor:
    """Return the index of the mode nearest to each point.

    Args:
        points: shape ``[B, D]``.
        centres: shape ``[M, D]``.

    Returns:
        Shape ``[B]``, int64.

    Examples:
        >>> nearest_mode(torch.tensor([[0.9], [0.2]]), torch.tensor([[0.0], [1.0]]))
        tensor([1, 0])
    """
    return torch.cdist(points, centres).argmin(1)
