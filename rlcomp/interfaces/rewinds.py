"""Environments whose state is in a checkpoint."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tensordict import TensorDict


@runtime_checkable
class Rewinds(Protocol):
    """An environment in a checkpoint that continues exactly from its saved state."""

    def present(self) -> TensorDict:
        """Return the current observation: the input of the next step."""
        ...
