"""Experts that know the distance to the goal."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tensordict import TensorDict
from torch import Tensor


@runtime_checkable
class Guide(Protocol):
    """A policy that knows the task."""

    def __call__(self, batch: TensorDict) -> TensorDict:
        """Write ``action``."""
        ...

    def left(self, batch: TensorDict) -> Tensor:
        """Return the distance from the states of a batch to the goal, ``[N]``, in any unit."""
        ...
