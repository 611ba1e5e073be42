"""The community's Lean REPL, and recorded sessions of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.errors import ConfigError, DataError
from rlcomp.files.json_lines import read_lines
from rlcomp.interfaces.task import Example
from rlcomp.prover.lean import LeanState, statement_of, theorem_text

Reply = Mapping[str, Any]
# Function that sends one command and returns its reply.
Ask = Callable[[Mapping[str, object]], Reply]


def is_proof(reply: Reply) -> bool:
    """Return whether the reply to a tactic reports a complete proof.

    An empty list of goals is not enough: metavariables may be open, the proof may hold ``sorry``,
    or the kernel may have refused it.

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


def _is_accepted(reply: Reply) -> bool:
    """Return whether the reply to a file has no error and no ``sorry``."""
    return "env" in reply and not reply.get("sorries") and not _errors(reply)


def _first_error(reply: Reply) -> str:
    """Return the first error in a reply; '' if there is none."""
    if "message" in reply:
        return str(reply["message"])
    return next(iter(_errors(reply)), "")


def _errors(reply: Reply) -> list[str]:
    # Lean only warns that a "declaration uses 'sorry'"; here this counts as an error.
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
            DataError: there is no theorem, it is refused, or Lean rejects it.
        """
        statement = statement_of(example)
        # ``:= by sorry`` in one line, the command of recorded sessions.
        reply = self._file(theorem_text(statement, ["sorry"]).replace("\n  ", " "))
        sorries = reply.get("sorries", [])
        if len(sorries) != 1 or "goal" not in sorries[0]:
            raise DataError(f"{statement!r:.60} is no theorem: {_first_error(reply)!r:.200}")
        return LeanState(statement, (str(sorries[0]["goal"]),), handle=sorries[0]["proofState"])

    def run(self, state: LeanState, tactic: str) -> LeanState | str:
        """Apply a tactic to a state; the state stays unchanged."""
        reply = self.ask({"tactic": tactic, "proofState": state.handle})
        if "goals" not in reply:
            return _first_error(reply) or "no reply of a tactic"
        goals, tactics = tuple(map(str, reply["goals"])), (*state.tactics, tactic)
        new = LeanState(state.statement, goals, tactics, handle=reply.get("proofState"))
        if goals:
            return new
        if not is_proof(reply):
            return f"no goals, and no proof: {reply.get('proofStatus')}"
        return LeanState(state.statement, (), tactics, completed=True, handle=new.handle)

    def rejection(self, state: LeanState) -> str:
        """Return why Lean rejects the theorem with all tactics as one file; '' if it accepts it."""
        reply = self._file(theorem_text(state.statement, state.tactics))
        return "" if _is_accepted(reply) else _first_error(reply) or "it holds sorry"

    def _file(self, text: str) -> Reply:
        """Return Lean's reply to a text after the header."""
        if not self.header:
            return self.ask({"cmd": text})
        return self.ask({"cmd": text, "env": self.ask({"cmd": self.header})["env"]})

    def close(self) -> None:
        """No-op."""


def replay(commands: Sequence[Mapping[str, object]], answers: Sequence[Reply]) -> Ask:
    """Return a function that answers commands as recorded (DataError for another command).

    A repeated command gets the next recorded reply, and in the end always the last one.
    """
    queues: dict[str, list[Reply]] = {}
    for command, answer in zip(commands, answers, strict=True):
        queues.setdefault(_key(command), []).append(answer)

    def ask(command: Mapping[str, object]) -> Reply:
        queue = queues.get(_key(command))
        if queue is None:
            raise DataError(f"the REPL was never asked {dict(command)!r:.120} in this recording")
        return queue.pop(0) if len(queue) > 1 else queue[0]

    return ask


def _key(command: Mapping[str, object]) -> str:
    return repr(sorted(command.items()))


_MOST_BYTES = 2**26


class RecordedSession(NamedTuple):
    """Recorded session of commands and the reply to each."""

    name: str
    commands: tuple[dict[str, object], ...]
    replies: tuple[Reply, ...]


@lru_cache(maxsize=8)
def read_sessions(path: Path) -> tuple[RecordedSession, ...]:
    """Read the sessions of a JSON-lines file with ``name``, ``input`` and ``expected``.

    ``input`` and ``expected`` are texts of JSON objects, one after the other.

    Raises:
        ConfigError: there is no such file.
        DataError: the file is longer than 64 MiB, or a line is no session.
    """
    if not path.is_file():
        raise ConfigError(f"lean_backend.path={path} is not a file of recorded sessions")
    if path.stat().st_size > _MOST_BYTES:
        raise DataError(f"{path} is longer than 64 MiB")
    return tuple(
        _parse_session(path, number, row) for number, row in enumerate(read_lines(path), 1)
    )


def _parse_session(path: Path, number: int, row: dict[str, object]) -> RecordedSession:
    where = f"{path}, line {number}"
    texts = [row.get(name) for name in ("name", "input", "expected")]
    if not all(isinstance(text, str) for text in texts):
        raise DataError(f"{where}: must hold texts name, input and expected")
    name, sent, received = map(str, texts)
    commands, answers = _parse_objects(sent, where), _parse_objects(received, where)
    if len(commands) != len(answers):
        raise DataError(f"{where}: {len(commands)} commands and {len(answers)} replies")
    return RecordedSession(name, commands, answers)


def _parse_objects(text: str, where: str) -> tuple[dict[str, object], ...]:
    """Parse consecutive JSON objects."""
    decoder, objects, place = json.JSONDecoder(), [], 0
    while text[place:].strip():
        place += len(text[place:]) - len(text[place:].lstrip())
        try:
            each, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: {error}") from error
        if not isinstance(each, dict):
            raise DataError(f"{where}: {each!r:.60} is no object")
        objects.append(each)
    return tuple(objects)


class ReplayLean(metaclass=Checked):
    """Lean backend that replays a recorded REPL; it knows the recorded commands only.

    Args:
        path: a file of recorded sessions.
        header: the recorded command before a theorem, such as ``import Mathlib``; '' for none.

    Raises:
        ConfigError: there is no such file.
        DataError: the file is longer than 64 MiB, or a line is no session.
    """

    def __init__(self, *, path: NonEmptyText, header: str = "") -> None:
        self.sessions = read_sessions(Path(path))
        self.header = header
        self.repl: ReplLean

    def start(self, example: Example) -> LeanState:
        """Begin the theorem of column ``statement`` in the first session that states it.

        Raises:
            DataError: no session states it, or its sessions reject it.
        """
        reason = DataError(f"{example.columns.get('statement')!r:.80} is in no recorded session")
        for session in self.sessions:
            self.repl = ReplLean(replay(session.commands, session.replies), self.header)
            try:
                return self.repl.start(example)
            except DataError as error:
                # replay() writes "never asked": the session does not state the theorem.
                reason = error if "never asked" not in str(error) else reason
        raise reason

    def run(self, state: LeanState, tactic: str) -> LeanState | str:
        """Return the recorded reply to a tactic.

        Raises:
            DataError: the tactic was never tried in this state.
        """
        return self.repl.run(state, tactic)

    def rejection(self, state: LeanState) -> str:
        """Return the recorded verdict on the whole file.

        Raises:
            DataError: the file was never sent.
        """
        return self.repl.rejection(state)

    def close(self) -> None:
        """No-op."""
