"""What a target update asks of a loss."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torchrl.objectives.common import LossModule


@runtime_checkable
class HoldsObjective(Protocol):
    """A loss around one of torchrl's, which holds the networks and their targets."""

    objective: LossModule
