"""Environment of proofs of propositional natural deduction."""

from __future__ import annotations

from components.worlds.tactics.natural_deduction import State, apply_tactic, parse_state, state_text
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.prover.turns import ProofTurns


class TacticsEnvironment(ProofTurns[State]):
    r"""Environment of proofs of propositional natural deduction, one tactic per turn.

    Tactics are ``intro``, ``split``, ``left``, ``right``, ``cases h``, ``apply h``, ``exact h``,
    ``exfalso`` and ``have A``. The example's prompt is the initial state, such as
    ``"h0:p\n⊢p∨q\n"``. For the effect of each tactic see
    :func:`components.worlds.tactics.natural_deduction.apply_tactic`. Every proven theorem is a
    tautology, and Lean accepts its proof.

    Examples:
        >>> proof = TacticsEnvironment()
        >>> _ = proof.reset(Example("⊢p→p\n", "", ""), seed=0)
        >>> proof.step("left\n").observation, proof.step("intro\n").observation
        ('no disjunction', 'h0:p\n⊢p')
        >>> turn = proof.step("exact h0\n")
        >>> turn.reward, turn.done
        (1.0, True)
    """

    def start(self, example: Example) -> State:
        """Return the state of the prompt.

        Raises:
            DataError: the prompt is not the text of a state.
        """
        try:
            return parse_state(example.prompt.removesuffix("\n"))
        except DataError as error:
            message = f"{error}; environment=tactics needs goals as prompts: use task=tactics"
            raise DataError(message) from error

    def apply(self, state: State, action: str) -> State | str:
        """Return the state after a tactic, or the error message."""
        return apply_tactic(state, action)

    def solved(self, state: State) -> bool:
        """Return whether the state has no open goals."""
        return not state

    def text(self, state: State) -> str:
        """Return the text of the open goals."""
        return state_text(state)
