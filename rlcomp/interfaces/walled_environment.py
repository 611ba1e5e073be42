"""Environments with a wall as an obstacle."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Walled(Protocol):
    """A plane with a wall along its first axis, from the left edge to ``wall`` at height 0.

    Attributes:
        wall: end of the wall.
        stride: largest move of a step, for each coordinate.
    """

    wall: float
    stride: float

    def blocked(self, start: Tensor, end: Tensor) -> Tensor:
        """Test if the wall is between two points, ``[N, 2]`` each: ``[N]`` bool."""
        ...

    def way(self, start: Tensor, end: Tensor) -> Tensor:
        """Return the length of the shortest path between two points, ``[N]``."""
        ...
