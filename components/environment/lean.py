"""Proofs in Lean, by turns, with one of several backends."""

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
    """Metaclass that checks arguments and abstract methods."""


class LeanEnvironment(ProofTurns[LeanState], metaclass=_Kind):
    """Environment that answers a tactic of Lean with the open goals or with Lean's message.

    A tactic that could leave a hole, add an axiom or run code is refused without being run
    (:func:`rlcomp.prover.lean_text.refusal`). A proof is complete, and paid, when the backend says
    so **and** Lean accepts the theorem with all its tactics as one file. If the backend fails,
    there is no verdict and the episode is invalid.

    Args:
        backend: the connection to Lean: ``lean_backend=replay|wasm|dojo``.
    """

    def __init__(self, *, backend: LeanBackend | Unbuilt) -> None:
        super().__init__()
        connection: Any = (
            load(backend.target, backend.arguments) if isinstance(backend, Unbuilt) else backend
        )
        self.backend = cast(LeanBackend, connection)

    def start(self, example: Example) -> LeanState:
        """Return the theorem of an example."""
        return self.backend.start(example)

    def apply(self, state: LeanState, action: str) -> LeanState | str:
        """Return the state after a tactic, or the error message."""
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
        """Return whether Lean has accepted the whole file."""
        return state.accepted

    def text(self, state: LeanState) -> str:
        """Return the open goals as Lean shows them."""
        return "\n\n".join(state.goals) or "no goals"

    def close(self) -> None:
        """End the processes of the backend."""
        self.backend.close()
