"""Checker of propositional natural deduction: goals, and Lean's basic tactics on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from components.worlds.tactics.formula import FALSE, Formula, parse, write
from rlcomp.errors import DataError

_NAME = re.compile(r"h(0|[1-9][0-9]{0,3})")
Hypotheses = tuple[tuple[str, Formula], ...]


class Goal(NamedTuple):
    """A sequent ``h0 : A, h1 : B ⊢ C``.

    Attributes:
        hypotheses: names and formulas, the oldest first.
        target: what is to be proven.
    """

    hypotheses: Hypotheses
    target: Formula

    def text(self) -> str:
        """As Lean shows it, a hypothesis a line."""
        told = [f"{name}:{write(formula)}\n" for name, formula in self.hypotheses]
        return f"{''.join(told)}⊢{write(self.target)}"

    def given(self, *formulas: Formula) -> Goal:
        """The goal with more hypotheses, named by the next numbers."""
        first = 1 + max((int(name[1:]) for name, _ in self.hypotheses), default=-1)
        new = [(f"h{first + n}", formula) for n, formula in enumerate(formulas)]
        return self._replace(hypotheses=(*self.hypotheses, *new))

    def without(self, name: str) -> Goal:
        """The goal without a hypothesis."""
        return self._replace(hypotheses=tuple(h for h in self.hypotheses if h[0] != name))


# Open goals; a tactic acts on the first, and a proof needs all of them.
State = tuple[Goal, ...]
_Rule = Callable[[Goal, str], "tuple[Goal, ...] | str"]


def state_of(statement: str) -> State:
    """The goal that a formula is, with nothing given.

    Raises:
        DataError: the text is no formula.
    """
    return (Goal((), parse(statement)),)


def state_text(state: State) -> str:
    """The open goals, a blank line between them; ``no goals`` at the end of a proof.

    Examples:
        >>> print(state_text(apply_tactic(state_of("p→p∧p"), "intro")))
        h0:p
        ⊢p∧p
    """
    return "\n\n".join(goal.text() for goal in state) or "no goals"


def parse_state(text: str) -> State:
    r"""The state of a text, as :func:`state_text` writes it.

    Raises:
        DataError: it is none: another form, a name that is no ``h`` with a number or comes twice.

    Examples:
        >>> parse_state("h0:p\n⊢p") == apply_tactic(state_of("p→p"), "intro")
        True
    """
    return tuple(_parse_goal(part) for part in text.split("\n\n"))


def _parse_goal(text: str) -> Goal:
    *given, target = text.split("\n")
    named = [line.partition(":") for line in given]
    names = [name for name, _, _ in named]
    if target[:1] != "⊢" or len({*names}) < len(names) or not all(map(_NAME.fullmatch, names)):
        raise DataError(f"{text!r:.60} is no goal: write h0:A on a line each, and ⊢B on the last")
    return Goal(tuple((name, parse(formula)) for name, _, formula in named), parse(target[1:]))


def apply_tactic(state: State, tactic: str) -> State | str:
    """The state that a tactic leads to, or what is wrong with it.

    With ``Γ ⊢ G`` the first goal:

    - ``intro``: ``G = A → B`` becomes ``Γ, A ⊢ B``;
    - ``split``: ``G = A ∧ B`` becomes ``Γ ⊢ A`` and ``Γ ⊢ B``;
    - ``left``, ``right``: ``G = A ∨ B`` becomes ``Γ ⊢ A``, ``Γ ⊢ B``;
    - ``cases h``: of ``A ∧ B`` both are given in place of ``h``, of ``A ∨ B`` one in each of two
      goals, of ``False`` nothing is left to prove;
    - ``exact h``: ``h : G``;
    - ``apply h``: ``h : A1 → ... → An → G`` leaves ``Γ ⊢ A1`` to ``Γ ⊢ An``;
    - ``exfalso``: ``G`` becomes ``False``;
    - ``have A``: ``Γ ⊢ A``, then ``Γ, A ⊢ G``.

    ``¬A`` is ``A → False``. New hypotheses take the next number: the same goal has the same text.
    """
    if not state:
        return "no goals"
    name, _, argument = tactic.strip().partition(" ")
    rule = (_WITH_ARGUMENT if argument else _ALONE).get(name)
    if rule is None:
        return "unknown tactic"
    new = rule(state[0], argument.strip())
    return new if isinstance(new, str) else (*new, *state[1:])


class Script(NamedTuple):
    """How far a script goes.

    Attributes:
        state: behind the tactics that were accepted.
        accepted: how many.
        message: what was wrong with the next one; empty where there was none.
    """

    state: State
    accepted: int
    message: str


def run_script(state: State, tactics: Sequence[str]) -> Script:
    """Apply tactics in turn, up to the first that fails; a tactic behind the end fails.

    Examples:
        >>> run_script(state_of("p→p"), ["intro", "split"])[1:]
        (1, 'no conjunction')
    """
    for number, tactic in enumerate(tactics):
        new = apply_tactic(state, tactic)
        if isinstance(new, str):
            return Script(state, number, new)
        state = new
    return Script(state, len(tactics), "")


def proves(statement: str, tactics: Sequence[str]) -> bool:
    """Whether a script is a proof: every tactic is accepted, and no goal is left.

    Examples:
        >>> proves("p→p", ["intro", "exact h0"]), proves("p→p", ["intro"])
        (True, False)
    """
    found = run_script(state_of(statement), tactics)
    return not found.message and not found.state


def _intro(goal: Goal, _: str) -> tuple[Goal, ...] | str:
    if goal.target[0] != "→":
        return "no implication"
    return (goal._replace(target=goal.target[2]).given(goal.target[1]),)


def _split(goal: Goal, _: str) -> tuple[Goal, ...] | str:
    if goal.target[0] != "∧":
        return "no conjunction"
    return tuple(goal._replace(target=part) for part in goal.target[1:])


def _side(place: int) -> _Rule:
    def rule(goal: Goal, _: str) -> tuple[Goal, ...] | str:
        if goal.target[0] != "∨":
            return "no disjunction"
        return (goal._replace(target=goal.target[place]),)

    return rule


def _exfalso(goal: Goal, _: str) -> tuple[Goal, ...] | str:
    return (goal._replace(target=FALSE),)


def _cases(goal: Goal, name: str) -> tuple[Goal, ...] | str:
    found = dict(goal.hypotheses).get(name)
    if found is None:
        return "unknown hypothesis"
    rest = goal.without(name)
    if found == FALSE:
        return ()
    if found[0] == "∧":
        return (rest.given(found[1], found[2]),)
    if found[0] == "∨":
        return (rest.given(found[1]), rest.given(found[2]))
    return "no cases"


def _apply(goal: Goal, name: str) -> tuple[Goal, ...] | str:
    found = dict(goal.hypotheses).get(name)
    if found is None:
        return "unknown hypothesis"
    left = list[Goal]()
    # As many premises as it has more than the goal: only so many can leave the goal.
    for _ in range(_premises(found) - _premises(goal.target)):
        left.append(goal._replace(target=found[1]))
        found = found[2]
    return tuple(left) if found == goal.target else "no match"


def _premises(formula: Formula) -> int:
    return 1 + _premises(formula[2]) if formula[0] == "→" else 0


def _exact(goal: Goal, name: str) -> tuple[Goal, ...] | str:
    found = dict(goal.hypotheses).get(name)
    if found is None:
        return "unknown hypothesis"
    return () if found == goal.target else "no match"


def _have(goal: Goal, text: str) -> tuple[Goal, ...] | str:
    try:
        part = parse(text)
    except DataError:
        return "no formula"
    return (goal._replace(target=part), goal.given(part))


_ALONE: dict[str, _Rule] = {
    "intro": _intro,
    "split": _split,
    "left": _side(1),
    "right": _side(2),
    "exfalso": _exfalso,
}
_WITH_ARGUMENT: dict[str, _Rule] = {
    "cases": _cases,
    "apply": _apply,
    "exact": _exact,
    "have": _have,
}
# What a failed tactic is told.
MESSAGES = (
    "no goals",
    "unknown tactic",
    "no implication",
    "no conjunction",
    "no disjunction",
    "unknown hypothesis",
    "no cases",
    "no match",
    "no formula",
)
