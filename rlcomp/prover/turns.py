"""Base of environments of theorem proving, in which a turn is a tactic."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from typing_extensions import Self

from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example

S = TypeVar("S")


class ProofTurns(ABC, Generic[S]):
    r"""Base of environments that answer a tactic with the next state or an error.

    A proof has reward 1. A turn is one tactic, which a newline ends. A failed tactic leaves the
    state unchanged. The text of the state is the ``anchor`` of each answer that does not end the
    episode (:class:`rlcomp.interfaces.environment.Turn`). The states of a subclass must be
    immutable, so that a tree search may revisit them
    (:class:`rlcomp.interfaces.protocols.Searchable`).

    Facts: ``tactics`` tried, ``failed`` ones among them, ``solved``.
    """

    stops = ("\n",)

    state: S

    def __init__(self) -> None:
        self.tactics = self.failed = 0
        self.proven = False

    @abstractmethod
    def start(self, example: Example) -> S:
        """Return the first state of an example."""

    @abstractmethod
    def apply(self, state: S, action: str) -> S | str:
        """Return the state after a tactic, or its error."""

    @abstractmethod
    def solved(self, state: S) -> bool:
        """Return whether the proof is complete."""

    @abstractmethod
    def text(self, state: S) -> str:
        """Return the text of a state for the policy."""

    def reset(self, example: Example, seed: int) -> Turn:
        """Begin the proof; the turn has no observation, because the prompt holds the state."""
        del seed
        self.state = self.start(example)
        return Turn(anchor=self.text(self.state))

    def step(self, action: str) -> Turn:
        """Apply a tactic."""
        self.tactics += 1
        new = self.apply(self.state, action.rstrip("\n"))
        if isinstance(new, str):
            self.failed += 1
            return Turn(observation=new, closing="\n", anchor=self.text(self.state))
        self.state = new
        self.proven = self.solved(new)
        if self.proven:
            return Turn(reward=1.0, done=True)
        text = self.text(new)
        return Turn(observation=text, closing="\n", anchor=text)

    def facts(self) -> Mapping[str, float]:
        """Return the number of tactics, of failed ones, and whether the proof is complete."""
        return {
            "tactics": float(self.tactics),
            "failed": float(self.failed),
            "solved": float(self.proven),
        }

    def fork(self) -> Self:
        """Return a copy; it shares the state, which is immutable."""
        return copy.copy(self)

    def close(self) -> None:
        """No-op."""
        return
