"""Proofs of propositional natural deduction, by turns."""

from __future__ import annotations

from components.worlds.tactics.natural_deduction import State, apply_tactic, parse_state, state_text
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.prover.turns import ProofTurns


class TacticsEnvironment(ProofTurns[State]):
    r"""Environment of proofs of propositional natural deduction, one tactic per turn.

    Tactics are ``intro``, ``split``, ``left``, ``right``, ``cases h``, ``apply h``, ``exact h``,
    ``exfalso`` and ``have A``. The example's prompt is the initial state, such as
    ``"h0:p\n⊢p∨q\n"``. For the effect of each tactic on the first goal see
    :func:`components.worlds.tactics.natural_deduction.apply_tactic`. Proven theorems hold by truth
    table and in Lean.

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
        """Return the state of the prompt.

        Raises:
            DataError: the prompt is no state.
        """
        try:
            return parse_state(example.prompt.removesuffix("\n"))
        except DataError as error:
            raise DataError(f"{error}; environment=tactics reads a goal: task=tactics") from error

    def apply(self, state: State, action: str) -> State | str:
        """Return the state after a tactic, or the error message."""
        return apply_tactic(state, action)

    def solved(self, state: State) -> bool:
        """Return whether no goal is left."""
        return not state

    def text(self, state: State) -> str:
        """Return the open goals."""
        return state_text(state)
