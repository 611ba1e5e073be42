"""Recorded sessions of a Lean REPL, read from a file and replayed."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.errors import ConfigError, DataError
from rlcomp.files.json_lines import read_lines
from rlcomp.interfaces.task import Example
from rlcomp.prover.lean import LeanState
from rlcomp.prover.repl import ReplLean, Reply, replies

_MOST_BYTES = 2**26


class RecordedSession(NamedTuple):
    """Recorded session of commands and replies.

    Attributes:
        name: name of the session.
        commands: the commands in order.
        replies: the reply to each command.
    """

    name: str
    commands: tuple[dict[str, object], ...]
    replies: tuple[Reply, ...]


@lru_cache(maxsize=8)
def sessions(path: Path) -> tuple[RecordedSession, ...]:
    """Read the sessions of a JSON-lines file with ``name``, ``input`` and ``expected``.

    ``input`` and ``expected`` are texts of JSON objects, one after the other.

    Raises:
        ConfigError: there is no such file.
        DataError: it is longer than 64 MiB, or a line is no session.
    """
    if not path.is_file():
        raise ConfigError(f"lean_backend.path={path} is no file of recorded sessions")
    if path.stat().st_size > _MOST_BYTES:
        raise DataError(f"{path} is longer than 64 MiB")
    return tuple(_session(path, number, row) for number, row in enumerate(read_lines(path), 1))


def _session(path: Path, number: int, row: dict[str, object]) -> RecordedSession:
    where = f"{path}, line {number}"
    texts = [row.get(name) for name in ("name", "input", "expected")]
    if not all(isinstance(text, str) for text in texts):
        raise DataError(f"{where}: must hold texts name, input and expected")
    name, sent, received = map(str, texts)
    commands, answers = _objects(sent, where), _objects(received, where)
    if len(commands) != len(answers):
        raise DataError(f"{where}: {len(commands)} commands and {len(answers)} replies")
    return RecordedSession(name, commands, answers)


def _objects(text: str, where: str) -> tuple[dict[str, object], ...]:
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
        DataError: it holds no sessions.
    """

    def __init__(self, *, path: NonEmptyText, header: str = "") -> None:
        self.sessions = sessions(Path(path))
        self.header = header
        self.repl: ReplLean

    def start(self, example: Example) -> LeanState:
        """Begin the theorem of column ``statement`` in the first session that states it.

        Raises:
            DataError: no session states it.
        """
        fault = DataError(f"{example.columns.get('statement')!r:.80} is in no recorded session")
        for session in self.sessions:
            self.repl = ReplLean(replies(session.commands, session.replies), self.header)
            try:
                return self.repl.start(example)
            except DataError as error:
                fault = error if "never asked" not in str(error) else fault
        raise fault

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
