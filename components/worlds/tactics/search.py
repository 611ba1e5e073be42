"""Prover of propositional natural deduction by iterative deepening."""

from __future__ import annotations

from collections.abc import Iterator

from components.worlds.tactics.formula import FALSE, Formula
from components.worlds.tactics.natural_deduction import Goal, State, apply_tactic

# Hypotheses and target of each goal on the path from the root.
_Path = frozenset[tuple[frozenset[Formula], Formula]]


def prove(goal: Goal, depth: int = 4) -> list[str] | None:
    """Search for a proof of a goal; return its tactics, or None if the search finds no proof.

    The search applies invertible tactics (``exact``, ``intro``, ``split``, ``cases``) first. The
    other tactics (``left``, ``right``, ``apply``, ``exfalso``) are choices and count for the depth.

    Args:
        goal: hypotheses and target.
        depth: largest number of choices on a path to a leaf.

    Examples:
        >>> from components.worlds.tactics.formula import parse
        >>> prove(Goal((), parse("p∧q→q∨r")))
        ['intro', 'cases h0', 'left', 'exact h1']
        >>> prove(Goal((), parse("p∨¬p"))) is None
        True
    """
    for limit in range(depth + 1):
        script = _search(goal, limit, frozenset())
        if script is not None:
            return script
    return None


def _search(goal: Goal, depth: int, path: _Path) -> list[str] | None:
    """Return a proof with at most ``depth`` choices that repeats no goal of the path."""
    invertible = _find_invertible_tactic(goal)
    if invertible is not None:
        return _search_after(goal, invertible, depth, path)
    key = (frozenset(formula for _, formula in goal.hypotheses), goal.target)
    if depth == 0 or key in path:
        return None
    for tactic in _choices(goal):
        script = _search_after(goal, tactic, depth - 1, path | {key})
        if script is not None:
            return script
    return None


def _search_after(goal: Goal, tactic: str, depth: int, path: _Path) -> list[str] | None:
    """Return the tactic and proofs of all goals after it; None if one has no proof."""
    script, state = [tactic], apply_tactic((goal,), tactic)
    assert not isinstance(state, str), f"{tactic}: {state}"
    for next_goal in state:
        proof = _search(next_goal, depth, path)
        if proof is None:
            return None
        script += proof
    return script


def _find_invertible_tactic(goal: Goal) -> str | None:
    """Return a tactic after which a provable goal stays provable; None if there is none."""
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
    """Yield the tactics that apply to a goal without invertible tactics."""
    state: State = (goal,)
    for name, _ in goal.hypotheses:
        if not isinstance(apply_tactic(state, f"apply {name}"), str):
            yield f"apply {name}"
    if goal.target[0] == "∨":
        yield from ("left", "right")
    if goal.target != FALSE and any(_ends_false(formula) for _, formula in goal.hypotheses):
        yield "exfalso"


def _ends_false(formula: Formula) -> bool:
    """Return whether a formula is ``False`` or an implication that ends in it."""
    return _ends_false(formula[2]) if formula[0] == "→" else formula == FALSE
