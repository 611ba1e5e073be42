"""Countdown task: expressions with + - * that have a given value."""

from __future__ import annotations

import random
from dataclasses import dataclass

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


@dataclass(frozen=True)
class _PartialExpression:
    """Expression of some of the numbers.

    Attributes:
        text: the expression.
        value: its value.
        additive: whether its outermost operator is + or -.
    """

    text: str
    value: int
    additive: bool = False


class Countdown(metaclass=Checked):
    """Task of puzzles: ``"3 7 2:13="`` asks for an expression of value 13 with 3, 7 and 2.

    The expression must contain each number once. Every puzzle has a solution, because its target is
    the value of a random expression of its numbers. That expression is the demonstration, and the
    target is the answer. No target is negative.

    Args:
        numbers: number of numbers in a puzzle.
        largest: largest of the numbers; the smallest is 1.
        size: number of puzzles.
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
        """Return the puzzle of an index, which depends only on the index."""
        draw = random.Random(named_seed(index, "countdown"))
        numbers = [draw.randint(1, self.largest) for _ in range(self.numbers)]
        terms = [_PartialExpression(str(number), number) for number in numbers]
        while len(terms) > 1:
            draw.shuffle(terms)
            terms.append(_combine(terms.pop(), draw.choice("+-*"), terms.pop()))
        prompt = f"{' '.join(map(str, numbers))}:{terms[0].value}="
        return Example(prompt, answer=str(terms[0].value), demonstration=terms[0].text)


def _combine(
    left: _PartialExpression, operator: str, right: _PartialExpression
) -> _PartialExpression:
    """Return the sum, product or difference; the smaller value is subtracted from the larger."""
    if operator == "+":
        return _PartialExpression(f"{left.text}+{right.text}", left.value + right.value, True)
    if operator == "*":
        text = f"{_write_factor(left)}*{_write_factor(right)}"
        return _PartialExpression(text, left.value * right.value)
    if left.value < right.value:
        left, right = right, left
    text = f"{left.text}-{_write_factor(right)}"
    return _PartialExpression(text, left.value - right.value, True)


def _write_factor(term: _PartialExpression) -> str:
    """Return the text of an expression as an operand of ``*`` or on the right of ``-``."""
    return f"({term.text})" if term.additive else term.text
