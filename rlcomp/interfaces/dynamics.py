"""Interfaces for the dynamics of an environment: random draws of them, and setting them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Randomises(Protocol):
    """Domain randomisation: the parameters to draw, their ranges and their distribution."""

    def ranges(self, nominal: Mapping[str, float]) -> Mapping[str, tuple[float, float]]:
        """Return the lowest and highest value of each parameter to draw.

        Args:
            nominal: value of every parameter of the environment without draws.

        Raises:
            ConfigError: the environment lacks a parameter, or a range is empty.
        """
        ...

    def draw(self, low: Tensor, high: Tensor, generator: torch.Generator) -> Tensor:
        """Draw values between two bounds of the same shape."""
        ...


@runtime_checkable
class HasDynamics(Protocol):
    """An environment whose dynamics have named parameters."""

    def set_dynamics(self, values: Mapping[str, float]) -> None:
        """Set these parameters in every copy; the others take each copy's own values.

        Raises:
            ConfigError: there is no such parameter.
        """
        ...
