"""Protocol of the community's Lean REPL; states have numbers, so that branching costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.prover.lean import LeanState, statement_of, theorem_text

Reply = Mapping[str, Any]
# Sends one command and returns its reply.
Ask = Callable[[Mapping[str, object]], Reply]


def is_proof(reply: Reply) -> bool:
    """Return whether the reply to a tactic says that the proof is complete.

    An empty list of goals is not enough: metavariables may be open, the proof may hold ``sorry``,
    or the kernel may have refused it. ``proofStatus`` must be checked.

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
    """Return whether the reply to a file has no error and no ``sorry``."""
    return "env" in reply and not reply.get("sorries") and not _errors(reply)


def what_is_wrong(reply: Reply) -> str:
    """Return the first error in a reply; '' if there is none."""
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
    """Lean backend of a REPL (``leanprover-community/repl``); theorems begin as ``:= by sorry``.

    Args:
        ask: sends a command and returns the reply.
        header: a file before the theorem, such as ``import Mathlib``; '' for none.
    """

    def __init__(self, ask: Ask, header: str = "") -> None:
        self.ask = ask
        self.header = header

    def start(self, example: Example) -> LeanState:
        """Begin the theorem of column ``statement``.

        Raises:
            DataError: there is no theorem, it is refused unread, or Lean rejects it.
        """
        statement = statement_of(example)
        reply = self._file(theorem_text(statement, ["sorry"]).replace("\n  ", " "))
        holes = reply.get("sorries", [])
        if len(holes) != 1 or "goal" not in holes[0]:
            raise DataError(f"{statement!r:.60} is no theorem: {what_is_wrong(reply)!r:.200}")
        return LeanState(statement, (str(holes[0]["goal"]),), handle=holes[0]["proofState"])

    def run(self, state: LeanState, tactic: str) -> LeanState | str:
        """Apply a tactic to a state; the state stays unchanged."""
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
        """Return Lean's reply to a text after the header."""
        if not self.header:
            return self.ask({"cmd": text})
        return self.ask({"cmd": text, "env": self.ask({"cmd": self.header})["env"]})

    def close(self) -> None:
        """No-op."""


def replies(commands: Sequence[Mapping[str, object]], answers: Sequence[Reply]) -> Ask:
    """Return a REPL that replays recorded replies to the same commands.

    If a command is repeated, it gives the next recorded reply to it, and then always the last one.

    Raises:
        DataError: a command was never recorded.
    """
    known: dict[str, list[Reply]] = {}
    for command, answer in zip(commands, answers, strict=True):
        known.setdefault(_key(command), []).append(answer)

    def ask(command: Mapping[str, object]) -> Reply:
        recorded = known.get(_key(command))
        if recorded is None:
            raise DataError(f"the REPL was never asked {dict(command)!r:.120} in this recording")
        return recorded.pop(0) if len(recorded) > 1 else recorded[0]

    return ask


def _key(command: Mapping[str, object]) -> str:
    return repr(sorted(command.items()))
