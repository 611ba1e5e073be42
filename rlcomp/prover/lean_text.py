"""Lean text: theorems with proofs by tactics, and the check of unsafe tactics."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example

# Words that could leave a proof open, add an axiom, run code or reach outside the process, and
# words that begin another command.
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
_REFUSED = frozenset(_WORDS.split())
_WORD = re.compile(r"[^\W\d][\w'!?]*")
_SIGNS = ("#", "@[", "--", "/-", "-/", "«", "»", '"', "`", "eval%", "\t", "\r")
_LONGEST = 2000
_STATED = re.compile(r"\s*(?:theorem|lemma|example)\b")


def refusal(tactic: str) -> str:
    """Return why a tactic is refused; '' if it may be passed to Lean.

    Examples:
        >>> refusal("exact sorry"), refusal("simp [h]"), refusal("trivial #print")
        ("'sorry' is refused", '', "'#' is refused")
    """
    if not tactic.strip():
        return "it is empty"
    if len(tactic) > _LONGEST:
        return f"it has more than {_LONGEST} characters"
    # A dotted name such as ``Lean.ofReduceBool`` is checked part by part.
    for word in _WORD.findall(tactic):
        if word.rstrip("!?") in _REFUSED:  # ``bv_decide?`` is a variant of ``bv_decide``
            return f"{word!r} is refused"
    for sign in _SIGNS:
        if sign in tactic:
            return f"{sign!r} is refused"
    if not all(letter.isprintable() or letter == "\n" for letter in tactic):
        return "a character that cannot be seen is refused"
    return ""


def statement_of(example: Example) -> str:
    """Return the column ``statement``: exactly one theorem, up to its ``:=``.

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
    stated = _STATED.match(statement)
    if not stated or ":=" in statement:
        raise DataError(
            f"column 'statement' is {statement!r:.80}: must be one theorem, lemma or example, "
            "up to its := and without it"
        )
    if why := refusal(statement[stated.end() :]):
        raise DataError(f"column 'statement' is {statement!r:.80}: {why}")
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
