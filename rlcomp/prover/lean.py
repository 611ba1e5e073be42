"""Lean: theorems, messages and verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example

# Words that could leave a proof open, add an axiom, run code, reach outside the process or begin
# another command.
_WORDS = """
    sorry sorryAx admit stop axiom constant opaque native_decide native bv_decide ofReduceBool
    reduceBool ofReduceNat reduceNat trustCompiler unsafe unsafeCast lcProof implemented_by extern
    export csimp macro macro_rules elab elab_rules syntax declare_syntax_cat notation infix infixl
    infixr prefix postfix set_option run_cmd run_tac run_elab run_meta by_elab eval IO Lean Elab
    Meta dbg_trace dbgTrace dbgTraceVal dbgTraceIfShared include_str polyrith simproc initialize
    builtin_initialize import module open namespace section end universe variable theorem lemma def
    abbrev example instance inductive structure class deriving mutual attribute local scoped private
    protected public noncomputable partial nonrec include omit
"""
_FORBIDDEN_WORDS = frozenset(_WORDS.split())
_WORD = re.compile(r"[^\W\d][\w'!?]*")
_FORBIDDEN_SIGNS = ("#", "@[", "--", "/-", "-/", "«", "»", '"', "`", "eval%", "\t", "\r")
_MAX_CHARACTERS = 2000
_KEYWORD = re.compile(r"\s*(?:theorem|lemma|example)\b")


def refusal(tactic: str) -> str:
    """Return why a tactic is refused; '' if it may be passed to Lean.

    Examples:
        >>> refusal("exact sorry"), refusal("simp [h]"), refusal("trivial #print")
        ("'sorry' is refused", '', "'#' is refused")
    """
    if not tactic.strip():
        return "it is empty"
    if len(tactic) > _MAX_CHARACTERS:
        return f"it has more than {_MAX_CHARACTERS} characters"
    # A dotted name such as ``Lean.ofReduceBool`` is checked part by part.
    for word in _WORD.findall(tactic):
        if word.rstrip("!?") in _FORBIDDEN_WORDS:  # ``bv_decide?`` is a variant of ``bv_decide``
            return f"{word!r} is refused"
    for sign in _FORBIDDEN_SIGNS:
        if sign in tactic:
            return f"{sign!r} is refused"
    if not all(letter.isprintable() or letter == "\n" for letter in tactic):
        return "an unprintable character is refused"
    return ""


def statement_of(example: Example) -> str:
    """Return the column ``statement``: exactly one theorem, without its ``:=`` and proof.

    Data files are untrusted: a statement that could add an axiom or run code is not passed to Lean.

    Raises:
        DataError: there is no such column, it is not exactly one theorem, or it holds text that is
            refused in tactics.

    Examples:
        >>> from rlcomp.interfaces.task import Example
        >>> statement_of(Example("", "", "", columns={"statement": "theorem t : 0 < 1"}))
        'theorem t : 0 < 1'
    """
    statement = example.columns.get("statement")
    if not isinstance(statement, str):
        raise DataError(f"example {example.prompt!r:.60} has no column 'statement' for Lean")
    keyword = _KEYWORD.match(statement)
    if not keyword or ":=" in statement:
        raise DataError(
            f"column 'statement' is {statement!r:.80}: must be one theorem, lemma or example, "
            "up to its := and without it"
        )
    if fault := refusal(statement[keyword.end() :]):
        raise DataError(f"column 'statement' is {statement!r:.80}: {fault}")
    return statement


def theorem_text(statement: str, tactics: Sequence[str]) -> str:
    """Return a theorem with its proof; every line of a tactic is indented.

    Examples:
        >>> print(theorem_text("theorem t (p : Prop) : p → p", ["intro h", "exact h"]))
        theorem t (p : Prop) : p → p := by
          intro h
          exact h
    """
    lines = [line for tactic in tactics for line in tactic.split("\n")]
    return "\n  ".join([f"{statement} := by", *lines])


class TheoremFile(NamedTuple):
    """File of theorems, each followed by a command that prints its number.

    Attributes:
        text: the text of the file.
        spans: the first line of each theorem and the line of its command, counted from 1.
    """

    text: str
    spans: list[tuple[int, int]]


def file_of(theorems: Sequence[str]) -> TheoremFile:
    r"""Return a file in which each theorem has a namespace of its own.

    Examples:
        >>> file_of(["theorem t : True := by\n  trivial"]).text.split("\n")
        ['namespace N0', 'theorem t : True := by', '  trivial', 'end N0', '#check "N0"', '']
    """
    lines, spans = list[str](), list[tuple[int, int]]()
    for number, theorem in enumerate(theorems):
        first = len(lines) + 1
        lines += [f"namespace N{number}", *theorem.split("\n"), f"end N{number}"]
        lines.append(f'#check "N{number}"')
        spans.append((first, len(lines)))
    return TheoremFile("\n".join([*lines, ""]), spans)


def rejections(file: TheoremFile, output: str) -> list[str]:
    """Return why each theorem is rejected; '' if it is accepted.

    A theorem is accepted if there is no error and no ``sorry`` from its first line to its command,
    and if the command has printed its number, which shows that Lean has read the theorem.

    Args:
        file: the checked file.
        output: Lean's output: one message per line, and other lines.

    Raises:
        ChildProcessError: Lean has not read the file to its end.
    """
    messages = list(_messages(output))
    reasons = list[str]()
    for number, (first, last) in enumerate(file.spans):
        in_span = [message for message in messages if first <= message[0] <= last]
        if not any(line == last and f'"N{number}"' in data for line, _, data in in_span):
            raise ChildProcessError(f"Lean has not reached theorem {number}: {output[-200:]!r}")
        reasons.append(next((data for _, is_rejected, data in in_span if is_rejected), ""))
    return reasons


def _messages(output: str) -> Iterator[tuple[int, bool, str]]:
    """Yield each message's line, whether it rejects, and its text."""
    for line in output.split("\n"):  # a message may hold other line ends
        if not line.startswith("{"):
            continue
        try:
            message = json.loads(line)
            data, place = str(message["data"]), int(message["pos"]["line"])
            is_rejected = message["severity"] == "error" or message.get("kind") == "hasSorry"
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ChildProcessError(f"Lean printed {line!r:.80}, which is no message") from error
        yield place, is_rejected or "declaration uses" in data, data


@dataclass(frozen=True)
class LeanState:
    """State of a proof in Lean; states that differ only in tactics and handle are equal.

    Attributes:
        statement: the theorem, up to its ``:=``.
        goals: the open goals, as Lean prints them.
        tactics: the tactics so far.
        completed: whether the backend has no open goals; this alone is no proof.
        accepted: whether Lean has accepted the theorem with all tactics as one file.
        handle: the backend's identifier of the state.
    """

    statement: str
    goals: tuple[str, ...]
    tactics: tuple[str, ...] = field(default=(), compare=False)
    completed: bool = False
    accepted: bool = False
    handle: object = field(default=None, compare=False)


class LeanBackend(Protocol):
    """Interface of backends that run Lean."""

    def start(self, example: Example) -> LeanState:
        """Return the first state of the proof of an example's theorem.

        Raises:
            DataError: the example states no theorem.
        """
        ...

    def run(self, state: LeanState, tactic: str) -> LeanState | str:
        """Return the state after a tactic, or Lean's error message.

        Raises:
            TimeoutError: the tactic took too long.
            ChildProcessError: Lean has crashed or took too long.
        """
        ...

    def rejection(self, state: LeanState) -> str:
        """Return why Lean rejects the theorem with all tactics as one file; '' if it accepts it."""
        ...

    def close(self) -> None:
        """End the processes of the backend."""
        ...
