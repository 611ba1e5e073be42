"""Checker of proofs in propositional natural deduction with tactics like Lean's."""

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

    def with_hypotheses(self, *formulas: Formula) -> Goal:
        """Return the goal with more hypotheses, which have the next numbers as names."""
        first = 1 + max((int(name[1:]) for name, _ in self.hypotheses), default=-1)
        hypotheses = [(f"h{first + n}", formula) for n, formula in enumerate(formulas)]
        return self._replace(hypotheses=(*self.hypotheses, *hypotheses))

    def without(self, name: str) -> Goal:
        """Return the goal without the hypothesis of this name."""
        return self._replace(hypotheses=tuple(h for h in self.hypotheses if h[0] != name))


# Open goals. A tactic acts on the first goal; a proof must close all goals.
State = tuple[Goal, ...]
_Rule = Callable[[Goal, str], "tuple[Goal, ...] | str"]


def initial_state(statement: str) -> State:
    """Return the state whose only goal is a formula without hypotheses.

    Raises:
        DataError: the text is no formula.
    """
    return (Goal((), parse(statement)),)


def state_text(state: State) -> str:
    """Return the texts of the open goals, separated by blank lines; ``no goals`` after a proof.

    Examples:
        >>> print(state_text(apply_tactic(initial_state("p→p∧p"), "intro")))
        h0:p
        ⊢p∧p
    """
    return "\n\n".join(goal.text() for goal in state) or "no goals"


def parse_state(text: str) -> State:
    r"""Return the state of a text in the format of :func:`state_text`.

    Raises:
        DataError: the text has another format, or the name of a hypothesis occurs twice or is not
            ``h`` and a number.

    Examples:
        >>> parse_state("h0:p\n⊢p") == apply_tactic(initial_state("p→p"), "intro")
        True
    """
    return tuple(_parse_goal(part) for part in text.split("\n\n"))


def _parse_goal(text: str) -> Goal:
    *lines, target = text.split("\n")
    hypotheses = [line.partition(":") for line in lines]
    names = [name for name, _, _ in hypotheses]
    if target[:1] != "⊢" or len({*names}) < len(names) or not all(map(_NAME.fullmatch, names)):
        raise DataError(
            f"{text!r:.60} is no goal: write each hypothesis on its own line as h0:A, and ⊢B on "
            "the last line"
        )
    return Goal(tuple((name, parse(formula)) for name, _, formula in hypotheses), parse(target[1:]))


def apply_tactic(state: State, tactic: str) -> State | str:
    """Return the state after a tactic, or the error message.

    With ``Γ ⊢ G`` the first goal:

    - ``intro``: ``G = A → B`` becomes ``Γ, A ⊢ B``;
    - ``split``: ``G = A ∧ B`` becomes ``Γ ⊢ A`` and ``Γ ⊢ B``;
    - ``left``, ``right``: ``G = A ∨ B`` becomes ``Γ ⊢ A``, ``Γ ⊢ B``;
    - ``cases h``: ``h : A ∧ B`` is replaced by ``A`` and ``B``; ``h : A ∨ B`` gives two goals, one
      with ``A`` and one with ``B`` in place of ``h``; ``h : False`` closes the goal;
    - ``exact h``: ``h : G`` closes the goal;
    - ``apply h``: ``h : A1 → ... → An → G`` gives the goals ``Γ ⊢ A1`` to ``Γ ⊢ An``;
    - ``exfalso``: ``G`` becomes ``False``;
    - ``have A``: gives the goals ``Γ ⊢ A`` and ``Γ, A ⊢ G``.

    ``¬A`` is ``A → False``. A new hypothesis has the next number as its name, so that the same goal
    has the same text.
    """
    if not state:
        return "no goals"
    name, _, argument = tactic.strip().partition(" ")
    rule = (_RULES_WITH_ARGUMENT if argument else _RULES_WITHOUT_ARGUMENT).get(name)
    if rule is None:
        return "unknown tactic"
    goals = rule(state[0], argument.strip())
    return goals if isinstance(goals, str) else (*goals, *state[1:])


class ScriptResult(NamedTuple):
    """Result of a tactic script.

    Attributes:
        state: the state after the accepted tactics.
        accepted: number of accepted tactics.
        message: error message of the first failing tactic; empty if all are accepted.
    """

    state: State
    accepted: int
    message: str

    @property
    def is_proof(self) -> bool:
        """True if all tactics are accepted and close all goals."""
        return not self.message and not self.state


def run_script(state: State, tactics: Sequence[str]) -> ScriptResult:
    """Apply tactics in order until one fails, and return the result.

    A tactic in a state without goals fails.

    Examples:
        >>> run_script(initial_state("p→p"), ["intro", "split"])[1:]
        (1, 'no conjunction')
    """
    for number, tactic in enumerate(tactics):
        next_state = apply_tactic(state, tactic)
        if isinstance(next_state, str):
            return ScriptResult(state, number, next_state)
        state = next_state
    return ScriptResult(state, len(tactics), "")


def proves(statement: str, tactics: Sequence[str]) -> bool:
    """Return whether all tactics of a script are accepted and close all goals.

    Examples:
        >>> proves("p→p", ["intro", "exact h0"]), proves("p→p", ["intro"])
        (True, False)
    """
    return run_script(initial_state(statement), tactics).is_proof


# In the rules, ``[0]`` of a formula is its connective, or the first letter of an atom.
def _intro(goal: Goal, _: str) -> tuple[Goal, ...] | str:
    if goal.target[0] != "→":
        return "no implication"
    return (goal._replace(target=goal.target[2]).with_hypotheses(goal.target[1]),)


def _split(goal: Goal, _: str) -> tuple[Goal, ...] | str:
    if goal.target[0] != "∧":
        return "no conjunction"
    return tuple(goal._replace(target=formula) for formula in goal.target[1:])


def _choose_side(index: int) -> _Rule:
    """Return the rule that replaces a disjunction by its left (1) or right (2) side."""

    def rule(goal: Goal, _: str) -> tuple[Goal, ...] | str:
        if goal.target[0] != "∨":
            return "no disjunction"
        return (goal._replace(target=goal.target[index]),)

    return rule


def _exfalso(goal: Goal, _: str) -> tuple[Goal, ...] | str:
    return (goal._replace(target=FALSE),)


def _cases(goal: Goal, name: str) -> tuple[Goal, ...] | str:
    formula = dict(goal.hypotheses).get(name)
    if formula is None:
        return "unknown hypothesis"
    remaining = goal.without(name)
    if formula == FALSE:
        return ()
    if formula[0] == "∧":
        return (remaining.with_hypotheses(formula[1], formula[2]),)
    if formula[0] == "∨":
        return (remaining.with_hypotheses(formula[1]), remaining.with_hypotheses(formula[2]))
    return "no cases"


def _apply(goal: Goal, name: str) -> tuple[Goal, ...] | str:
    formula = dict(goal.hypotheses).get(name)
    if formula is None:
        return "unknown hypothesis"
    goals = list[Goal]()
    # The hypothesis may have more premises than the target. The additional ones become goals.
    for _ in range(_count_premises(formula) - _count_premises(goal.target)):
        goals.append(goal._replace(target=formula[1]))
        formula = formula[2]
    return tuple(goals) if formula == goal.target else "no match"


def _count_premises(formula: Formula) -> int:
    """Return ``n`` of ``A1 → ... → An → B``, where ``B`` is no implication."""
    return 1 + _count_premises(formula[2]) if formula[0] == "→" else 0


def _exact(goal: Goal, name: str) -> tuple[Goal, ...] | str:
    formula = dict(goal.hypotheses).get(name)
    if formula is None:
        return "unknown hypothesis"
    return () if formula == goal.target else "no match"


def _have(goal: Goal, text: str) -> tuple[Goal, ...] | str:
    try:
        formula = parse(text)
    except DataError:
        return "no formula"
    return (goal._replace(target=formula), goal.with_hypotheses(formula))


_RULES_WITHOUT_ARGUMENT: dict[str, _Rule] = {
    "intro": _intro,
    "split": _split,
    "left": _choose_side(1),
    "right": _choose_side(2),
    "exfalso": _exfalso,
}
_RULES_WITH_ARGUMENT: dict[str, _Rule] = {
    "cases": _cases,
    "apply": _apply,
    "exact": _exact,
    "have": _have,
}
# All error messages of :func:`apply_tactic`.
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
