"""Countdown task: expressions of a target with + - *."""

from __future__ import annotations

import random
from dataclasses import dataclass

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


@dataclass(frozen=True)
class _Term:
    """Partial expression, its value, and whether its top-level operator is + or -."""

    text: str
    value: int
    additive: bool = False


class Countdown(metaclass=Checked):
    """Task of puzzles: ``"3 7 2:13="`` asks for an expression of 13 with 3, 7 and 2 once each.

    Every puzzle is made from its index alone by combining the numbers at random, so that it is
    solvable. Targets are never negative. The demonstration is the expression of its construction,
    the answer is the target.

    Args:
        numbers: numbers per puzzle.
        largest: largest number; the smallest is 1.
        size: number of puzzles; none is stored.
        held_out: share of the prompts that only evaluators see.

    Examples:
        >>> example = Countdown().example(0)
        >>> example.prompt, example.answer, example.demonstration
        ('16 12 15:207=', '207', '16*12+15')
    """

    def __init__(
        self,
        *,
        numbers: PositiveInt = 3,
        largest: PositiveInt = 20,
        size: PositiveInt = 10_000,
        held_out: Fraction = 0.1,
    ) -> None:
        self.numbers = numbers
        self.largest = largest
        self.size = size
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.size

    def example(self, index: int) -> Example:
        """Return the puzzle of an index."""
        draw = random.Random(named_seed(index, "countdown"))
        numbers = [draw.randint(1, self.largest) for _ in range(self.numbers)]
        terms = [_Term(str(number), number) for number in numbers]
        while len(terms) > 1:
            draw.shuffle(terms)
            terms.append(_combine(terms.pop(), draw.choice("+-*"), terms.pop()))
        prompt = f"{' '.join(map(str, numbers))}:{terms[0].value}="
        return Example(prompt, answer=str(terms[0].value), demonstration=terms[0].text)


def _combine(left: _Term, operator: str, right: _Term) -> _Term:
    if operator == "+":
        return _Term(f"{left.text}+{right.text}", left.value + right.value, additive=True)
    if operator == "*":
        return _Term(f"{_factor(left)}*{_factor(right)}", left.value * right.value)
    if left.value < right.value:
        left, right = right, left
    return _Term(f"{left.text}-{_factor(right)}", left.value - right.value, additive=True)


def _factor(term: _Term) -> str:
    return f"({term.text})" if term.additive else term.text
