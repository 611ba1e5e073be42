"""Task of whole proofs and of repairs of failed proofs."""

from __future__ import annotations

import random

from components.worlds.tactics.natural_deduction import parse_state, run_script, state_text
from components.worlds.tactics.task import Tactics
from rlcomp.arguments import Checked, Probability
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

# Tactics that a demonstration may try wrongly.
_TRIAL_TACTICS = ("intro", "split", "left", "right", "exact h0", "exact h1", "apply h0", "cases h0")


class TacticScripts(metaclass=Checked):
    r"""Task of another task's theorems whose demonstrations have one or two attempts.

    A demonstration with one attempt is the proof, one tactic per line. A demonstration with two
    attempts has three turns: a beginning of the proof with a failing tactic, the answer of
    ``environment=proof_attempts``, and the remaining tactics of the proof.

    Args:
        theorems: the task of theorems.
        mistaken: probability that the first attempt fails.

    Examples:
        >>> task = TacticScripts(theorems=Tactics(longest=3), mistaken=0.0)
        >>> task.example(1).turns
        ('intro\nintro\nexact h1',)
    """

    def __init__(self, *, theorems: Tactics, mistaken: Probability = 0.5) -> None:
        self.theorems = theorems
        self.mistaken = mistaken
        self.held_out = theorems.held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return len(self.theorems)

    def example(self, index: int) -> Example:
        """Return a theorem with one or two attempts."""
        theorem = self.theorems.example(index)
        proof = theorem.answer.split("\n")
        turns = self._turns(theorem.prompt, proof, random.Random(named_seed(index, "script")))
        return Example(
            theorem.prompt,
            theorem.answer,
            "".join(turns),
            source=theorem.source,
            columns=theorem.columns,
            turns=turns,
        )

    def _turns(self, prompt: str, proof: list[str], draw: random.Random) -> tuple[str, ...]:
        """Return the turns of a demonstration."""
        length = draw.randrange(len(proof))
        state = run_script(parse_state(prompt[:-1]), proof[:length]).state
        wrong = [tactic for tactic in _TRIAL_TACTICS if run_script(state, [tactic]).message]
        if draw.random() >= self.mistaken:
            return ("\n".join(proof),)
        tactic = draw.choice(wrong)
        message = run_script(state, [tactic]).message
        attempt = "\n".join([*proof[:length], tactic, "", ""])
        return (attempt, f"{message}\n{state_text(state)}\n", "\n".join(proof[length:]))
