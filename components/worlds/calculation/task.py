"""Task of arithmetic chains for a calculator tool."""

from __future__ import annotations

import random

from rlcomp.arguments import Checked, ExampleCount, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

_LARGEST = 99


class Calculation(metaclass=Checked):
    """Task of chains: ``"7*8+9="`` has the answer 65, with operations from left to right.

    All intermediate values are in 0 to 99. In each turn the policy may call the calculator
    (:class:`components.tool.Calculator`) for one operation: ``<7*8>``, with the result
    ``56|``, then ``<56+9>``.

    A demonstration calls the calculator for the next operation with probability ``asked``.
    Otherwise it ends with a random number as its answer.

    Args:
        operations: largest number of operations in a chain; the numbers from ``fewest`` to it
            alternate.
        fewest: smallest number of operations in a chain.
        asked: probability that a demonstration makes the next call.
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
        examples: ExampleCount = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        if operations < fewest:
            raise ConfigError(
                f"Calculation: operations is {operations}: must be at least fewest ({fewest})"
            )
        self.operations = operations
        self.fewest = fewest
        self.asked = asked
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return the chain of an index; the numbers of operations alternate."""
        draw = random.Random(named_seed(index, "calculation"))
        count = self.fewest + index % (self.operations - self.fewest + 1)
        value = draw.randint(1, 9)
        chain, turns, calls_tool = str(value), list[str](), True
        for _ in range(count):
            operation, result = _draw_operation(draw, value)
            calls_tool = calls_tool and draw.random() < self.asked
            turns += [f"<{value}{operation}>", f"{result}|"] if calls_tool else []
            chain, value = chain + operation, result
        turns.append(str(value if calls_tool else draw.randint(0, _LARGEST)))
        return Example(f"{chain}=", str(value), "".join(turns), turns=tuple(turns))


def _draw_operation(draw: random.Random, value: int) -> tuple[str, int]:
    """Draw an operation on a value; return its text, such as ``*8``, and its result, 0 to 99."""
    while True:
        sign, digit = draw.choice("+-*"), draw.randint(1, 9)
        result = {"+": value + digit, "-": value - digit, "*": value * digit}[sign]
        if 0 <= result <= _LARGEST:
            return f"{sign}{digit}", result
