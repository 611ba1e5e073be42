"""Calculation: chains of operations for a calculator."""

from __future__ import annotations

import random
import sys

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

_LARGEST = 99


class Calculation(metaclass=Checked):
    """Task of chains: ``"7*8+9="`` has the answer 65, with operations from left to right.

    No intermediate value is negative or above 99. Each turn asks the calculator
    (:class:`components.tool.calculator.Calculator`) for one operation: ``<7*8>``, with the answer
    ``56|``, then ``<56+9>``.

    A demonstration asks before each operation with probability ``asked``; otherwise it gives a
    random number as the answer.

    Args:
        operations: most operations in a chain; all numbers from ``fewest`` on alternate.
        fewest: least operations in a chain.
        asked: probability that a demonstration asks once more.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: ``operations`` is below ``fewest``.

    Examples:
        >>> example = Calculation(asked=1.0).example(1)
        >>> example.prompt, example.answer, example.turns
        ('2*3*5=', '30', ('<2*3>', '6|', '<6*5>', '30|', '30'))
    """

    def __init__(
        self,
        *,
        operations: PositiveInt = 3,
        fewest: PositiveInt = 1,
        asked: Probability = 0.4,
        examples: PositiveInt = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        if operations < fewest:
            raise ConfigError(
                f"Calculation: operations is {operations}: must be at least fewest ({fewest})"
            )
        if examples > sys.maxsize:
            raise ConfigError(f"Calculation: examples is {examples}: must be at most {sys.maxsize}")
        self.operations = operations
        self.fewest = fewest
        self.asked = asked
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return a chain; the lengths alternate."""
        draw = random.Random(named_seed(index, "calculation"))
        count = self.fewest + index % (self.operations - self.fewest + 1)
        value = draw.randint(1, 9)
        chain, turns, shown = str(value), list[str](), True
        for _ in range(count):
            operation, result = _operation(draw, value)
            shown = shown and draw.random() < self.asked
            turns += [f"<{value}{operation}>", f"{result}|"] if shown else []
            chain, value = chain + operation, result
        turns.append(str(value if shown else draw.randint(0, _LARGEST)))
        return Example(f"{chain}=", str(value), "".join(turns), turns=tuple(turns))


def _operation(draw: random.Random, value: int) -> tuple[str, int]:
    """Return an operation on a value, such as ``*8``, and its result within 0 to 99."""
    while True:
        sign, digit = draw.choice("+-*"), draw.randint(1, 9)
        result = {"+": value + digit, "-": value - digit, "*": value * digit}[sign]
        if 0 <= result <= _LARGEST:
            return f"{sign}{digit}", result
