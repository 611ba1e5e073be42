"""Tasks of generated theorems of propositional natural deduction, their steps and scripts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

from annotated_types import Le

from components.worlds.tactics.formula import Formula, is_tautology, write
from components.worlds.tactics.natural_deduction import (
    State,
    apply_tactic,
    initial_state,
    parse_state,
    run_script,
    state_text,
)
from components.worlds.tactics.search import prove
from rlcomp.arguments import Checked, ExampleCount, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

_ATOMS = "pqrs"


class Tactics(metaclass=Checked):
    r"""Task of goals such as ``"⊢p∧q→q∧p\n"`` that have a proof in the checker's tactics.

    Goals are random tautologies with a known proof of ``shortest`` to ``longest`` tactics. The
    column ``statement`` holds the goal as a theorem of Lean, ``theorem goal (p q r s : Prop) :
    p∧q→q∧p``; ``proof_length`` is the number of tactics of the known proof. The answer is the known
    proof, one tactic per line. Other proofs are right, too
    (:mod:`components.worlds.tactics.natural_deduction`).

    A demonstration is the proof in turns: a tactic and the state after it. A held-out goal does not
    occur in training, not even with other names of its atoms.

    Args:
        atoms: number of atoms, at most 4.
        depth: largest depth of the formulas, in connectives, at most 4.
        shortest: smallest number of tactics of the known proof.
        longest: largest number of tactics of the known proof.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: ``longest`` is below ``shortest``.

    Examples:
        >>> example = Tactics(longest=3).example(1)
        >>> example.prompt, example.answer.split("\n")
        ('⊢(p∧q→p∨r)→¬r→¬r\n', ['intro', 'intro', 'exact h1'])
    """

    def __init__(
        self,
        *,
        atoms: Annotated[PositiveInt, Le(4)] = 3,
        depth: Annotated[PositiveInt, Le(4)] = 3,
        shortest: PositiveInt = 2,
        longest: PositiveInt = 12,
        examples: ExampleCount = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        if longest < shortest:
            raise ConfigError(
                f"Tactics: longest is {longest}: must be at least shortest ({shortest})"
            )
        self.atoms = _ATOMS[:atoms]
        self.depth = depth
        self.shortest = shortest
        self.longest = longest
        self.examples = examples
        self.held_out = held_out
        self.theorem = lru_cache(maxsize=65_536)(self._theorem)

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def _theorem(self, index: int) -> tuple[str, tuple[str, ...]]:
        """Return the index's first random formula with a proof of valid length, and the proof."""
        draw = random.Random(named_seed(index, "tactics"))
        while True:
            text = rename_atoms(write(self._draw_formula(draw, self.depth)))
            (goal,) = initial_state(text)
            proof = prove(goal) if is_tautology(goal.target) else None
            if proof is not None and self.shortest <= len(proof) <= self.longest:
                return text, tuple(proof)

    def _draw_formula(self, draw: random.Random, depth: int) -> Formula:
        """Draw a formula of at most this depth."""
        if depth == 0 or draw.random() < 0.2:
            return draw.choice(self.atoms)
        sign = draw.choice("→→∧∨¬")
        left = self._draw_formula(draw, depth - 1)
        if sign == "¬":
            return ("→", left, "False")
        return (sign, left, self._draw_formula(draw, depth - 1))

    def example(self, index: int) -> Example:
        """Return a goal with its proof."""
        text, proof = self.theorem(index)
        turns = _turns(initial_state(text), proof)
        return Example(
            f"⊢{text}\n",
            "\n".join(proof),
            "".join(turns),
            source=text,
            columns={
                "statement": f"theorem goal (p q r s : Prop) : {text}",
                "proof_length": len(proof),
            },
            turns=turns,
        )


def rename_atoms(text: str) -> str:
    """Return the text of a formula with the atoms ``p``, ``q``, ... in order of occurrence.

    Examples:
        >>> rename_atoms("r→p∨r")
        'p→q∨p'
    """
    atoms = dict.fromkeys(character for character in text if character in _ATOMS)
    new_names = dict(zip(atoms, _ATOMS, strict=False))
    return "".join(new_names.get(character, character) for character in text)


def _turns(state: State, proof: Sequence[str]) -> tuple[str, ...]:
    """Return the tactics of a proof, with the state between each two of them."""
    turns = list[str]()
    for tactic in proof:
        next_state = apply_tactic(state, tactic)
        assert not isinstance(next_state, str)
        state = next_state
        turns += [f"{tactic}\n", f"{state_text(state)}\n"]
    return tuple(turns[:-1])


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
        # An attempt ends with the environment's stop text, an empty line.
        attempt = "\n".join([*proof[:length], tactic, "", ""])
        return (attempt, f"{message}\n{state_text(state)}\n", "\n".join(proof[length:]))
