"""Task of single steps of known proofs."""

from __future__ import annotations

from components.worlds.tactics.task import Tactics
from rlcomp.arguments import Checked
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class TacticSteps(metaclass=Checked):
    r"""Task of steps: a state of a known proof, ``"h0:p∧q\n⊢q\n"``, asks for the next tactic.

    The task has one random step of each theorem of another task, with the same held-out split. It
    is for the warm start of a prover that reads a state and writes one tactic.

    Args:
        theorems: the task of theorems.

    Examples:
        >>> TacticSteps(theorems=Tactics(longest=3)).example(1).demonstration
        'exact h1'
    """

    def __init__(self, *, theorems: Tactics) -> None:
        self.theorems = theorems
        self.held_out = theorems.held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return len(self.theorems)

    def example(self, index: int) -> Example:
        """Return a step of a theorem's proof."""
        theorem = self.theorems.example(index)
        states = [theorem.prompt, *theorem.turns[1::2]]
        step = named_seed(index, "tactic step") % len(states)
        tactic = theorem.turns[2 * step].removesuffix("\n")
        return Example(states[step], tactic, tactic, source=theorem.source)
