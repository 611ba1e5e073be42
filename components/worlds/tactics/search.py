"""Prover of propositional natural deduction by iterative deepening."""

from __future__ import annotations

from collections.abc import Iterator

from components.worlds.tactics.formula import FALSE, Formula
from components.worlds.tactics.natural_deduction import Goal, State, apply_tactic

_Seen = frozenset[tuple[frozenset[Formula], Formula]]


def prove(goal: Goal, depth: int = 4) -> list[str] | None:
    """Search a proof of a goal; return None if there is none within the depth.

    Invertible rules (``exact``, ``intro``, ``split``, ``cases``) come first and cost no depth. Each
    choice (``left``, ``right``, ``apply``) costs one level.

    Args:
        goal: the goal.
        depth: most choices on a path to a leaf.

    Examples:
        >>> from components.worlds.tactics.formula import parse
        >>> prove(Goal((), parse("p∧q→q∨r")))
        ['intro', 'cases h0', 'left', 'exact h1']
        >>> prove(Goal((), parse("p∨¬p"))) is None
        True
    """
    for limit in range(depth + 1):
        script = _proven(goal, limit, frozenset())
        if script is not None:
            return script
    return None


def _proven(goal: Goal, depth: int, seen: _Seen) -> list[str] | None:
    free = _free(goal)
    if free is not None:
        return _after(goal, free, depth, seen)
    here = (frozenset(formula for _, formula in goal.hypotheses), goal.target)
    if depth == 0 or here in seen:
        return None
    for tactic in _choices(goal):
        script = _after(goal, tactic, depth - 1, seen | {here})
        if script is not None:
            return script
    return None


def _after(goal: Goal, tactic: str, depth: int, seen: _Seen) -> list[str] | None:
    """Return the tactic and proofs of all goals that it leaves; None without a proof."""
    script, left = [tactic], apply_tactic((goal,), tactic)
    assert not isinstance(left, str), f"{tactic}: {left}"
    for part in left:
        proof = _proven(part, depth, seen)
        if proof is None:
            return None
        script += proof
    return script


def _free(goal: Goal) -> str | None:
    """Return an invertible tactic, after which a provable goal stays provable."""
    for name, formula in goal.hypotheses:
        if formula == goal.target:
            return f"exact {name}"
    if goal.target[0] == "→":
        return "intro"
    if goal.target[0] == "∧":
        return "split"
    for name, formula in goal.hypotheses:
        if formula == FALSE or formula[0] in "∧∨":
            return f"cases {name}"
    return None


def _choices(goal: Goal) -> Iterator[str]:
    state: State = (goal,)
    for name, _ in goal.hypotheses:
        if not isinstance(apply_tactic(state, f"apply {name}"), str):
            yield f"apply {name}"
    if goal.target[0] == "∨":
        yield from ("left", "right")
    if goal.target != FALSE and any(_ends_false(formula) for _, formula in goal.hypotheses):
        yield "exfalso"


def _ends_false(formula: Formula) -> bool:
    return _ends_false(formula[2]) if formula[0] == "→" else formula == FALSE
