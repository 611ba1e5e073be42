"""Translation of tactic scripts to theorems of Lean."""

from __future__ import annotations

from collections.abc import Sequence

from components.worlds.tactics.formula import FALSE, parse, write
from components.worlds.tactics.natural_deduction import Goal, State, apply_tactic, initial_state
from rlcomp.prover.lean import theorem_text


def write_lean_theorem(name: str, statement: str, tactics: Sequence[str]) -> str:
    """Return a statement with a tactic script as a theorem of Lean.

    Lean's verdict is the checker's, because the hypotheses have the same names. From the first
    failing tactic on, the tactics are translated without names for new hypotheses.

    Args:
        name: name of the theorem.
        statement: the formula to prove.
        tactics: the script, in the checker's tactics.

    Examples:
        >>> print(write_lean_theorem("t", "p∧q→p", ["intro", "cases h0", "exact h0"]))
        theorem t (p q r s : Prop) : p∧q→p := by
          intro h0
          rcases h0 with ⟨h0, h1⟩
          exact h0
    """
    state: State | str = initial_state(statement)
    lines = list[str]()
    for tactic in tactics:
        next_state = state if isinstance(state, str) else apply_tactic(state, tactic)
        if isinstance(state, str) or isinstance(next_state, str) or not state:
            lines.append(_translate(tactic))
        else:
            lines.append(_translate_accepted(state[0], tactic))
        state = next_state
    return theorem_text(f"theorem {name} (p q r s : Prop) : {statement}", lines)


def _translate(tactic: str) -> str:
    """Return a tactic in Lean's syntax, without names for new hypotheses."""
    verb, _, argument = tactic.partition(" ")
    return {"split": "refine And.intro ?_ ?_", "have": f"refine have : {argument} := ?_; ?_"}.get(
        verb, tactic
    )


def _translate_accepted(goal: Goal, tactic: str) -> str:
    """Return an accepted tactic in Lean's syntax, with names for its new hypotheses."""
    verb, _, argument = tactic.partition(" ")
    if verb == "intro":
        return f"intro {_next_name(goal)}"
    if verb == "have":
        return f"refine have {_next_name(goal)} : {write(parse(argument))} := ?_; ?_"
    if verb == "cases":
        formula, remaining = dict(goal.hypotheses)[argument], goal.without(argument)
        if formula == FALSE:
            return tactic
        if formula[0] == "∨":
            return f"rcases {argument} with {_next_name(remaining)} | {_next_name(remaining)}"
        return f"rcases {argument} with ⟨{_next_name(remaining)}, {_next_name(remaining, 2)}⟩"
    return _translate(tactic)


def _next_name(goal: Goal, number: int = 1) -> str:
    """Return the name of the ``number``-th new hypothesis of a goal."""
    return goal.with_hypotheses(*[FALSE] * number).hypotheses[-1][0]
