"""Theorem proving in turns: a tactic, and the state it leads to."""

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
    r"""Answers a tactic with the state it leads to, or with what is wrong; pays 1 for a proof.

    A turn is one tactic, which a newline ends. One that fails leaves the state as it is. The state
    is the ``anchor``.

    A subclass has immutable states (:class:`rlcomp.interfaces.searchable.Searchable`): a search may
    drive it as well.

    Facts: ``tactics`` tried, ``failed`` ones among them, ``solved``.
    """

    stops = ("\n",)

    state: S

    def __init__(self) -> None:
        self.tactics = self.failed = 0
        self.proven = False

    @abstractmethod
    def start(self, example: Example) -> S:
        """The state in which an example begins."""

    @abstractmethod
    def apply(self, state: S, action: str) -> S | str:
        """The state that a tactic leads to, or what was wrong with it."""

    @abstractmethod
    def solved(self, state: S) -> bool:
        """Whether the proof is complete."""

    @abstractmethod
    def text(self, state: S) -> str:
        """What the policy reads."""

    def reset(self, example: Example, seed: int) -> Turn:
        """Begin; the prompt has told the state."""
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
        told = self.text(new)
        return Turn(observation=told, closing="\n", anchor=told)

    def facts(self) -> Mapping[str, float]:
        """Tactics so far, how many failed, and whether the proof is complete."""
        return {
            "tactics": float(self.tactics),
            "failed": float(self.failed),
            "solved": float(self.proven),
        }

    def fork(self) -> Self:
        """Another proof that goes on from here."""
        return copy.copy(self)

    def close(self) -> None:
        """Nothing is held."""
        return
