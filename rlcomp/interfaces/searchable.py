"""Searchable interface: environments with immutable states, for provers and games."""

from __future__ import annotations

from typing import Protocol, TypeVar

from rlcomp.interfaces.task import Example

S = TypeVar("S")


class Searchable(Protocol[S]):
    """States that a search may come back to: ``apply`` never changes the one it is given."""

    def start(self, example: Example) -> S:
        """The state in which an example begins."""
        ...

    def apply(self, state: S, action: str) -> S | str:
        """The state that an action leads to, or what was wrong with it."""
        ...

    def solved(self, state: S) -> bool:
        """Whether nothing is left to do."""
        ...

    def text(self, state: S) -> str:
        """What the policy reads; equal text, equal state."""
        ...
