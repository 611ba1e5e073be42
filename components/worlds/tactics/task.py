"""Generated theorems of propositional natural deduction."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache

from components.worlds.tactics.formula import Formula, is_tautology, write
from components.worlds.tactics.natural_deduction import State, apply_tactic, state_of, state_text
from components.worlds.tactics.search import prove
from rlcomp.arguments import Checked, ExampleCount, Fraction, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

_ATOMS = "pqrs"


class Tactics(metaclass=Checked):
    r"""Task of goals such as ``"⊢p∧q→q∧p\n"`` that have a proof by the checker's tactics.

    Goals are random tautologies with a known proof of ``shortest`` to ``longest`` tactics. The
    column ``statement`` holds the goal as a theorem of Lean, ``theorem goal (p q r s : Prop) :
    p∧q→q∧p``. The answer is that proof, one tactic per line; every other proof is right too
    (:mod:`components.worlds.tactics.natural_deduction`).

    A demonstration is the proof turn by turn: a tactic and the state after it. Goals are held out:
    none of them occurs in training, not even with other names of atoms.

    Args:
        atoms: number of atoms, at most 4.
        depth: depth of the formulas, in connectives.
        shortest: tactics of the shortest known proof.
        longest: tactics of the longest known proof.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: there are more than 4 atoms, the depth is above 4, or the longest proof is
            shorter than the shortest.

    Examples:
        >>> example = Tactics(longest=3).example(1)
        >>> example.prompt, example.answer.split("\n")
        ('⊢(p∧q→p∨r)→¬r→¬r\n', ['intro', 'intro', 'exact h1'])
    """

    def __init__(
        self,
        *,
        atoms: PositiveInt = 3,
        depth: PositiveInt = 3,
        shortest: PositiveInt = 2,
        longest: PositiveInt = 12,
        examples: ExampleCount = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        for name, value, most in (("atoms", atoms, len(_ATOMS)), ("depth", depth, 4)):
            if value > most:
                raise ConfigError(f"Tactics: {name} is {value}: must be at most {most}")
        if longest < shortest:
            raise ConfigError(f"Tactics: longest is {longest}: must be at least {shortest}")
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
        """Return the first usable one of the index's random formulas, with its proof."""
        draw = random.Random(named_seed(index, "tactics"))
        while True:
            text = renamed(write(self._formula(draw, self.depth)))
            (goal,) = state_of(text)
            proof = prove(goal) if is_tautology(goal.target) else None
            if proof is not None and self.shortest <= len(proof) <= self.longest:
                return text, tuple(proof)

    def _formula(self, draw: random.Random, depth: int) -> Formula:
        if depth == 0 or draw.random() < 0.2:
            return draw.choice(self.atoms)
        sign = draw.choice("→→∧∨¬")
        left = self._formula(draw, depth - 1)
        if sign == "¬":
            return ("→", left, "False")
        return (sign, left, self._formula(draw, depth - 1))

    def example(self, index: int) -> Example:
        """Return a goal with its proof."""
        text, proof = self.theorem(index)
        turns = _turns(state_of(text), proof)
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


def renamed(text: str) -> str:
    """Return a formula with its atoms renamed in order of occurrence.

    Examples:
        >>> renamed("r→p∨r")
        'p→q∨p'
    """
    letters = dict.fromkeys(letter for letter in text if letter in _ATOMS)
    names = dict(zip(letters, _ATOMS, strict=False))
    return "".join(names.get(letter, letter) for letter in text)


def _turns(state: State, proof: Sequence[str]) -> tuple[str, ...]:
    """Return tactics with the states between them, without a state after the last one."""
    turns = list[str]()
    for tactic in proof:
        new = apply_tactic(state, tactic)
        assert not isinstance(new, str)
        state = new
        turns += [f"{tactic}\n", f"{state_text(state)}\n"]
    return tuple(turns[:-1])
