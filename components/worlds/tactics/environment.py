"""Propositional natural deduction, proven in turns."""

from __future__ import annotations

from components.worlds.tactics.natural_deduction import State, apply_tactic, parse_state, state_text
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.prover.turns import ProofTurns


class TacticsEnvironment(ProofTurns[State]):
    r"""Answers ``intro``, ``split``, ``left``, ``right``, ``cases h``, ``apply h``, ``exact h``.

    And ``exfalso`` and ``have A``. The example's prompt is the state to begin with, as in
    ``"h0:p\n⊢p∨q\n"``; :func:`components.worlds.tactics.natural_deduction.apply_tactic` says what
    each tactic does to the first goal. What is proven holds by truth table, and in Lean.

    Examples:
        >>> proof = TacticsEnvironment()
        >>> _ = proof.reset(Example("⊢p→p\n", "", ""), seed=0)
        >>> proof.step("left\n").observation, proof.step("intro\n").observation
        ('no disjunction', 'h0:p\n⊢p')
        >>> ended = proof.step("exact h0\n")
        >>> ended.reward, ended.done
        (1.0, True)
    """

    def start(self, example: Example) -> State:
        """The state of the prompt.

        Raises:
            DataError: the prompt is none.
        """
        try:
            return parse_state(example.prompt.removesuffix("\n"))
        except DataError as error:
            raise DataError(f"{error}; environment=tactics reads a goal: task=tactics") from error

    def apply(self, state: State, action: str) -> State | str:
        """The state that a tactic leads to, or what was wrong with it."""
        return apply_tactic(state, action)

    def solved(self, state: State) -> bool:
        """Whether no goal is left."""
        return not state

    def text(self, state: State) -> str:
        """The open goals."""
        return state_text(state)
