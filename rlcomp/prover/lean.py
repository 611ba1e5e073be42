"""Lean backends: states of a proof, and what every backend does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from rlcomp.interfaces.task import Example


@dataclass(frozen=True)
class LeanState:
    """A state of a proof in Lean. Two are equal that show the same goals of the same theorem.

    Attributes:
        statement: the theorem, up to its ``:=``.
        goals: the open ones, as Lean shows them.
        tactics: that led here.
        completed: the backend says that nothing is left; not yet that it is a proof.
        accepted: Lean has accepted the theorem with all tactics as one file.
        handle: what the backend knows the state by.
    """

    statement: str
    goals: tuple[str, ...]
    tactics: tuple[str, ...] = field(default=(), compare=False)
    completed: bool = False
    accepted: bool = False
    handle: object = field(default=None, compare=False)


class LeanBackend(Protocol):
    """What speaks to Lean."""

    def start(self, example: Example) -> LeanState:
        """The state in which the theorem of an example begins.

        Raises:
            DataError: it states none.
        """
        ...

    def run(self, state: LeanState, tactic: str) -> LeanState | str:
        """The state that a tactic leads to, or what Lean says is wrong."""
        ...

    def rejection(self, state: LeanState) -> str:
        """Why Lean does not accept the theorem with all tactics, as one file; empty if it does."""
        ...

    def close(self) -> None:
        """End what it has started."""
        ...
