"""Checker of propositional natural deduction, with goals and Lean's basic tactics."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from components.worlds.tactics.formula import FALSE, Formula, parse, write
from rlcomp.errors import DataError

_NAME = re.compile(r"h(0|[1-9][0-9]{0,3})")
Hypotheses = tuple[tuple[str, Formula], ...]


class Goal(NamedTuple):
    """Sequent ``h0 : A, h1 : B ⊢ C``.

    Attributes:
        hypotheses: names and formulas, the oldest first.
        target: the formula to prove.
    """

    hypotheses: Hypotheses
    target: Formula

    def text(self) -> str:
        """Return the goal as Lean shows it, one hypothesis per line."""
        hypotheses = [f"{name}:{write(formula)}\n" for name, formula in self.hypotheses]
        return f"{''.join(hypotheses)}⊢{write(self.target)}"

    def given(self, *formulas: Formula) -> Goal:
        """Return the goal with more hypotheses, named by the next numbers."""
        first = 1 + max((int(name[1:]) for name, _ in self.hypotheses), default=-1)
        new = [(f"h{first + n}", formula) for n, formula in enumerate(formulas)]
        return self._replace(hypotheses=(*self.hypotheses, *new))

    def without(self, name: str) -> Goal:
        """Return the goal without a hypothesis."""
        return self._replace(hypotheses=tuple(h for h in self.hypotheses if h[0] != name))


# Open goals: a tactic acts on the first, and a proof must close all.
State = tuple[Goal, ...]
_Rule = Callable[[Goal, str], "tuple[Goal, ...] | str"]


def state_of(statement: str) -> State:
    """Return the state with a formula as the only goal, without hypotheses.

    Raises:
        DataError: the text is no formula.
    """
    return (Goal((), parse(statement)),)


def state_text(state: State) -> str:
    """Return the open goals, separated by blank lines; ``no goals`` after a proof.

    Examples:
        >>> print(state_text(apply_tactic(state_of("p→p∧p"), "intro")))
        h0:p
        ⊢p∧p
    """
    return "\n\n".join(goal.text() for goal in state) or "no goals"


def parse_state(text: str) -> State:
    r"""Parse the state of a text in the format of :func:`state_text`.

    Raises:
        DataError: the text is no state: it has another form, or a name that is no ``h`` with a
            number or occurs twice.

    Examples:
        >>> parse_state("h0:p\n⊢p") == apply_tactic(state_of("p→p"), "intro")
        True
    """
    return tuple(_parse_goal(part) for part in text.split("\n\n"))


def _parse_goal(text: str) -> Goal:
    *lines, target = text.split("\n")
    named = [line.partition(":") for line in lines]
    names = [name for name, _, _ in named]
    if target[:1] != "⊢" or len({*names}) < len(names) or not all(map(_NAME.fullmatch, names)):
        raise DataError(f"{text!r:.60} is no goal: write h0:A on a line each, and ⊢B on the last")
    return Goal(tuple((name, parse(formula)) for name, _, formula in named), parse(target[1:]))


def apply_tactic(state: State, tactic: str) -> State | str:
    """Return the state after a tactic, or the error message.

    With ``Γ ⊢ G`` the first goal:

    - ``intro``: ``G = A → B`` becomes ``Γ, A ⊢ B``;
    - ``split``: ``G = A ∧ B`` becomes ``Γ ⊢ A`` and ``Γ ⊢ B``;
    - ``left``, ``right``: ``G = A ∨ B`` becomes ``Γ ⊢ A``, ``Γ ⊢ B``;
    - ``cases h``: ``A ∧ B`` gives both in place of ``h``, ``A ∨ B`` gives two goals with one each,
      ``False`` closes the goal;
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
    """Result of a script.

    Attributes:
        state: the state after the accepted tactics.
        accepted: number of accepted tactics.
        message: error message of the next tactic; empty if there is none.
    """

    state: State
    accepted: int
    message: str


def run_script(state: State, tactics: Sequence[str]) -> Script:
    """Apply tactics in turn until the first that fails; a tactic after the end fails.

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
    """Return whether a script is a proof: all tactics are accepted, and no goal is left.

    Examples:
        >>> proves("p→p", ["intro", "exact h0"]), proves("p→p", ["intro"])
        (True, False)
    """
    script = run_script(state_of(statement), tactics)
    return not script.message and not script.state


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
    formula = dict(goal.hypotheses).get(name)
    if formula is None:
        return "unknown hypothesis"
    rest = goal.without(name)
    if formula == FALSE:
        return ()
    if formula[0] == "∧":
        return (rest.given(formula[1], formula[2]),)
    if formula[0] == "∨":
        return (rest.given(formula[1]), rest.given(formula[2]))
    return "no cases"


def _apply(goal: Goal, name: str) -> tuple[Goal, ...] | str:
    formula = dict(goal.hypotheses).get(name)
    if formula is None:
        return "unknown hypothesis"
    left = list[Goal]()
    # Its premises beyond the goal's premises become new goals.
    for _ in range(_premises(formula) - _premises(goal.target)):
        left.append(goal._replace(target=formula[1]))
        formula = formula[2]
    return tuple(left) if formula == goal.target else "no match"


def _premises(formula: Formula) -> int:
    return 1 + _premises(formula[2]) if formula[0] == "→" else 0


def _exact(goal: Goal, name: str) -> tuple[Goal, ...] | str:
    formula = dict(goal.hypotheses).get(name)
    if formula is None:
        return "unknown hypothesis"
    return () if formula == goal.target else "no match"


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
# Messages of failed tactics.
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
