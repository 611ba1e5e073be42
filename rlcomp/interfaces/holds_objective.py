"""Interfaces of losses that a target update or a prioritised replay needs."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor
from torchrl.objectives.common import LossModule


@runtime_checkable
class HoldsObjective(Protocol):
    """A loss around one of torchrl's, which holds the networks and their targets."""

    objective: LossModule


@runtime_checkable
class TellsErrors(Protocol):
    """A loss that remembers the errors of its last rows.

    Attributes:
        errors: rows of the replay (``index``) and their ``|delta|``, ``[N]`` each; None before the
            first.
    """

    errors: tuple[Tensor, Tensor] | None
