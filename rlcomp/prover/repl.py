"""Protocol of the community's Lean REPL: states are numbers, and trees of them are free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.prover.lean import LeanState
from rlcomp.prover.lean_text import statement_of, theorem_text

Reply = Mapping[str, Any]
# One command in, one reply out.
Ask = Callable[[Mapping[str, object]], Reply]


def is_proof(reply: Reply) -> bool:
    """Whether the reply to a tactic says that the proof is complete.

    No goals are not enough: metavariables may be open, a ``sorry`` may be in it, the kernel may
    have refused it. ``proofStatus`` tells.

    Examples:
        >>> is_proof({"goals": [], "proofStatus": "Completed", "proofState": 1})
        True
        >>> is_proof({"goals": [], "proofStatus": "Incomplete: contains sorry", "proofState": 1})
        False
    """
    return (
        reply.get("goals") == []
        and reply.get("proofStatus") == "Completed"
        and not reply.get("sorries")
        and not _errors(reply)
    )


def is_accepted(reply: Reply) -> bool:
    """Whether the reply to a file says that Lean accepts it: no error, and no ``sorry``."""
    return "env" in reply and not reply.get("sorries") and not _errors(reply)


def what_is_wrong(reply: Reply) -> str:
    """The first error in a reply; empty where there is none."""
    if "message" in reply:
        return str(reply["message"])
    return next(iter(_errors(reply)), "")


def _errors(reply: Reply) -> list[str]:
    return [
        str(each.get("data"))
        for each in reply.get("messages", [])
        if each.get("severity") == "error" or "declaration uses" in str(each.get("data"))
    ]


class ReplLean:
    """A REPL (``leanprover-community/repl``): theorems begin as ``:= by sorry``.

    Args:
        ask: sends a command, returns the reply.
        header: a file before the theorem, such as ``import Mathlib``; empty for none.
    """

    def __init__(self, ask: Ask, header: str = "") -> None:
        self.ask = ask
        self.header = header

    def start(self, example: Example) -> LeanState:
        """The theorem of column ``statement``.

        Raises:
            DataError: there is none, it is refused unread, or Lean says that it is wrong.
        """
        statement = statement_of(example)
        reply = self._file(theorem_text(statement, ["sorry"]).replace("\n  ", " "))
        holes = reply.get("sorries", [])
        if len(holes) != 1 or "goal" not in holes[0]:
            raise DataError(f"{statement!r:.60} is no theorem: {what_is_wrong(reply)!r:.200}")
        return LeanState(statement, (str(holes[0]["goal"]),), handle=holes[0]["proofState"])

    def run(self, state: LeanState, tactic: str) -> LeanState | str:
        """Apply a tactic to a state, which stays."""
        reply = self.ask({"tactic": tactic, "proofState": state.handle})
        if "goals" not in reply:
            return what_is_wrong(reply) or "no reply of a tactic"
        goals, tactics = tuple(map(str, reply["goals"])), (*state.tactics, tactic)
        new = LeanState(state.statement, goals, tactics, handle=reply.get("proofState"))
        if goals:
            return new
        if not is_proof(reply):
            return f"no goals, and no proof: {reply.get('proofStatus')}"
        return LeanState(state.statement, (), tactics, completed=True, handle=new.handle)

    def rejection(self, state: LeanState) -> str:
        """Send the theorem with all tactics as one file."""
        reply = self._file(theorem_text(state.statement, state.tactics))
        return "" if is_accepted(reply) else what_is_wrong(reply) or "it holds sorry"

    def _file(self, text: str) -> Reply:
        """Lean's reply to a text behind the header."""
        if not self.header:
            return self.ask({"cmd": text})
        return self.ask({"cmd": text, "env": self.ask({"cmd": self.header})["env"]})

    def close(self) -> None:
        """Nothing is held."""


def replies(commands: Sequence[Mapping[str, object]], answers: Sequence[Reply]) -> Ask:
    """A REPL that says again what it said to the same commands.

    Asked again for one, it gives the next reply to it, the last one again and again.

    Raises:
        DataError: a command was never recorded.
    """
    known: dict[str, list[Reply]] = {}
    for command, answer in zip(commands, answers, strict=True):
        known.setdefault(_key(command), []).append(answer)

    def ask(command: Mapping[str, object]) -> Reply:
        found = known.get(_key(command))
        if found is None:
            raise DataError(f"the REPL was never asked {dict(command)!r:.120} in this recording")
        return found.pop(0) if len(found) > 1 else found[0]

    return ask


def _key(command: Mapping[str, object]) -> str:
    return repr(sorted(command.items()))
