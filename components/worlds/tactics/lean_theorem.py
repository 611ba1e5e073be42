"""Proofs of natural deduction as theorems of Lean."""

from __future__ import annotations

from collections.abc import Sequence

from components.worlds.tactics.formula import FALSE, parse, write
from components.worlds.tactics.natural_deduction import Goal, State, apply_tactic, state_of
from rlcomp.prover.lean import theorem_text


def game_theorem(name: str, statement: str, tactics: Sequence[str]) -> str:
    """Return a script of the game as a theorem of Lean.

    Lean gives the game's verdict: hypotheses have the names of the game. From the first failing
    tactic on the script is unchanged.

    Examples:
        >>> print(game_theorem("t", "p∧q→p", ["intro", "cases h0", "exact h0"]))
        theorem t (p q r s : Prop) : p∧q→p := by
          intro h0
          rcases h0 with ⟨h0, h1⟩
          exact h0
    """
    state: State | str = state_of(statement)
    lines = list[str]()
    for tactic in tactics:
        new = state if isinstance(state, str) else apply_tactic(state, tactic)
        if isinstance(state, str) or isinstance(new, str) or not state:
            lines.append(_as_written(tactic))
        else:
            lines.append(_named(state[0], tactic))
        state = new
    return theorem_text(f"theorem {name} (p q r s : Prop) : {statement}", lines)


def _as_written(tactic: str) -> str:
    verb, _, argument = tactic.partition(" ")
    return {"split": "refine And.intro ?_ ?_", "have": f"refine have : {argument} := ?_; ?_"}.get(
        verb, tactic
    )


def _named(goal: Goal, tactic: str) -> str:
    """Return an accepted tactic with the names that it introduces."""
    verb, _, argument = tactic.partition(" ")
    if verb == "intro":
        return f"intro {_next(goal)}"
    if verb == "have":
        return f"refine have {_next(goal)} : {write(parse(argument))} := ?_; ?_"
    if verb == "cases":
        formula, rest = dict(goal.hypotheses)[argument], goal.without(argument)
        if formula == FALSE:
            return tactic
        if formula[0] == "∨":
            return f"rcases {argument} with {_next(rest)} | {_next(rest)}"
        return f"rcases {argument} with ⟨{_next(rest)}, {_next(rest, 2)}⟩"
    return _as_written(tactic)


def _next(goal: Goal, number: int = 1) -> str:
    """Return the name of a goal's next hypothesis, or of a later one."""
    return goal.given(*[FALSE] * number).hypotheses[-1][0]
