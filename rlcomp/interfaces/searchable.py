"""Searchable interface: environments with immutable states, for provers and games."""

from __future__ import annotations

from typing import Protocol, TypeVar

from rlcomp.interfaces.task import Example

S = TypeVar("S")


class Searchable(Protocol[S]):
    """States that a search may revisit: ``apply`` never changes its input."""

    def start(self, example: Example) -> S:
        """Return the initial state of an example."""
        ...

    def apply(self, state: S, action: str) -> S | str:
        """Return the state after an action, or what was wrong with it."""
        ...

    def solved(self, state: S) -> bool:
        """Test if the goal is reached."""
        ...

    def text(self, state: S) -> str:
        """Return the policy's input; equal texts are equal states."""
        ...
