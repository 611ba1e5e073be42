"""Interface of Lean backends, and the states of a proof."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from rlcomp.interfaces.task import Example


@dataclass(frozen=True)
class LeanState:
    """A state of a proof in Lean; states with the same theorem and goals are equal.

    Attributes:
        statement: the theorem, up to its ``:=``.
        goals: the open goals, as Lean prints them.
        tactics: the tactics that led here.
        completed: the backend sees no goal left; this alone does not make it a proof.
        accepted: Lean has accepted the theorem with all tactics as one file.
        handle: the backend's identifier of the state.
    """

    statement: str
    goals: tuple[str, ...]
    tactics: tuple[str, ...] = field(default=(), compare=False)
    completed: bool = False
    accepted: bool = False
    handle: object = field(default=None, compare=False)


class LeanBackend(Protocol):
    """Interface of backends that run Lean."""

    def start(self, example: Example) -> LeanState:
        """Return the state in which the theorem of an example begins.

        Raises:
            DataError: the example states no theorem.
        """
        ...

    def run(self, state: LeanState, tactic: str) -> LeanState | str:
        """Return the state that a tactic leads to, or Lean's error message."""
        ...

    def rejection(self, state: LeanState) -> str:
        """Return why Lean rejects the theorem with all tactics as one file; '' if it accepts it."""
        ...

    def close(self) -> None:
        """End the processes of the backend."""
        ...
