"""What draws the dynamics of an environment, and what has dynamics that can be set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Randomises(Protocol):
    """Domain randomisation: which parameters are drawn, from where to where, and how."""

    def ranges(self, nominal: Mapping[str, float]) -> Mapping[str, tuple[float, float]]:
        """Lowest and highest value of each parameter that is drawn.

        Args:
            nominal: every parameter of the environment, as it is where nothing is drawn.

        Raises:
            ConfigError: a parameter is none of the environment's, or a range is empty.
        """
        ...

    def draw(self, low: Tensor, high: Tensor, generator: torch.Generator) -> Tensor:
        """Values between two bounds of the same shape."""
        ...


@runtime_checkable
class HasDynamics(Protocol):
    """An environment whose dynamics have named parameters."""

    def set_dynamics(self, values: Mapping[str, float]) -> None:
        """Let every copy have these parameters, and its own ones for the others.

        Raises:
            ConfigError: there is no such parameter.
        """
        ...
