"""Environments whose state a checkpoint holds."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tensordict import TensorDict


@runtime_checkable
class Rewinds(Protocol):
    """An environment that a checkpoint holds, and that goes on exactly where it was."""

    def present(self) -> TensorDict:
        """What is seen now: the input of the next step."""
        ...
