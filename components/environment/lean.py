"""Lean, proven in turns by one of several backends."""

from __future__ import annotations

from abc import ABCMeta
from dataclasses import replace
from typing import Any, cast

from rlcomp.arguments import Checked, Unbuilt
from rlcomp.interfaces.task import Example
from rlcomp.prover.lean import LeanBackend, LeanState
from rlcomp.prover.lean_text import refusal
from rlcomp.prover.turns import ProofTurns
from rlcomp.workers.call import load


class _Kind(Checked, ABCMeta):
    """Metaclass: arguments are checked, and a class that lacks a method cannot be made."""


class LeanEnvironment(ProofTurns[LeanState], metaclass=_Kind):
    """Answers a tactic of Lean with the goals that it leaves, or with Lean's message.

    A tactic is refused unread that could leave a hole, believe an axiom or run code
    (:func:`rlcomp.prover.lean_text.refusal`). A proof is complete, and paid, when the backend says
    so **and** Lean accepts the theorem with all its tactics as one file. A backend that fails is no
    verdict: the episode is invalid.

    Args:
        backend: speaks to Lean: ``lean_backend=replay|wasm|dojo``.
    """

    def __init__(self, *, backend: LeanBackend | Unbuilt) -> None:
        super().__init__()
        made: Any = (
            load(backend.target, backend.arguments) if isinstance(backend, Unbuilt) else backend
        )
        self.backend = cast(LeanBackend, made)

    def start(self, example: Example) -> LeanState:
        """The theorem of an example."""
        return self.backend.start(example)

    def apply(self, state: LeanState, action: str) -> LeanState | str:
        """The state that a tactic leads to, or what was wrong with it."""
        refused = refusal(action)
        if refused:
            return refused
        new = self.backend.run(state, action)
        if isinstance(new, str):
            return new
        if not new.completed:
            return new if new.goals else "no goals, and no proof"
        why = self.backend.rejection(new)
        return f"the file is not accepted: {why}" if why else replace(new, accepted=True)

    def solved(self, state: LeanState) -> bool:
        """Whether Lean has accepted the whole file."""
        return state.accepted

    def text(self, state: LeanState) -> str:
        """The open goals, as Lean shows them."""
        return "\n\n".join(state.goals) or "no goals"

    def close(self) -> None:
        """End what the backend has started."""
        self.backend.close()
