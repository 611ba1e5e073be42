"""Synthetic corpus of modular sums: text whose last token needs computation."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class RunningSum(metaclass=Checked):
    """Documents such as ``"7+5+8+3=3"``: digits and the last digit of their sum.

    A corpus in which all but one token is noise, and that one follows from all the others. A
    document is the answer, and the demonstration goes on from its first digit. Short ones occur
    repeatedly.

    With ``probabilities`` operands are not all alike: the digits behind the second follow them,
    ``H = -sum_d p_d log p_d`` nats each, while the first two stay uniform. The result is then
    uniform (``log modulus`` nats) and independent of all operands without the first, and of all
    without the second: who cannot add finds it as hard to foretell as ever.

    Args:
        modulus: what the sums are modulo; digits are below it.
        shortest: digits that are added, at least 2.
        longest: at most so many; all numbers in between are equally frequent.
        probabilities: of the digits 0, 1, ... from the third operand on; null: all are equal.
        size: how many documents there are; none is stored.
        held_out: share of the documents that only evaluators see.

    Raises:
        ConfigError: ``modulus`` is not one of 2 to 10, or ``shortest`` is below 2 or above
            ``longest``; ``probabilities`` are not ``modulus`` numbers that sum to 1.

    Examples:
        >>> RunningSum().example(0).answer
        '0+7+1=8'
    """

    def __init__(
        self,
        *,
        modulus: PositiveInt = 10,
        shortest: PositiveInt = 3,
        longest: PositiveInt = 6,
        probabilities: Sequence[Probability] | None = None,
        size: PositiveInt = 5_000,
        held_out: Fraction = 0.1,
    ) -> None:
        if not 2 <= modulus <= 10:
            raise ConfigError(f"RunningSum: modulus is {modulus}: must be 2 to 10")
        if not 2 <= shortest <= longest:
            raise ConfigError(
                f"RunningSum: shortest is {shortest}: must be at least 2 and at most longest, "
                f"{longest}"
            )
        if probabilities is not None and not _fits(probabilities, modulus):
            raise ConfigError(
                f"RunningSum: probabilities is {list(probabilities)}: must be {modulus} numbers, "
                "one for each digit below modulus, that sum to 1"
            )
        self.modulus = modulus
        self.shortest = shortest
        self.longest = longest
        self.probabilities = probabilities
        self.size = size
        self.held_out = held_out

    def __len__(self) -> int:
        """How many documents there are, training and held out."""
        return self.size

    def example(self, index: int) -> Example:
        """The document made from the index."""
        draw = random.Random(named_seed(index, "running sum"))
        count = draw.randint(self.shortest, self.longest)
        uniform = count if self.probabilities is None else 2
        digits = [draw.randrange(self.modulus) for _ in range(uniform)]
        if self.probabilities is not None:
            digits += draw.choices(range(self.modulus), self.probabilities, k=count - uniform)
        text = f"{'+'.join(map(str, digits))}={sum(digits) % self.modulus}"
        return Example(text[:1], text, text[1:], source=text)


def _fits(probabilities: Sequence[float], modulus: int) -> bool:
    return len(probabilities) == modulus and math.isclose(sum(probabilities), 1, abs_tol=1e-6)


class RunningSums(metaclass=Checked):
    """The running sums of a text's last line: a chain of thought for demonstrations.

    Args:
        modulus: what the sums are modulo.

    Examples:
        >>> RunningSums()("7+5+8+3=")
        '7+5=2 2+8=0 0+3=3'
    """

    def __init__(self, *, modulus: PositiveInt = 10) -> None:
        self.modulus = modulus

    def __call__(self, context: str) -> str:
        """The thought of a context."""
        digits = [int(digit) for digit in re.findall("[0-9]", context.rpartition("\n")[2])]
        sums = accumulate(digits, lambda total, digit: (total + digit) % self.modulus)
        steps = zip(pairwise(sums), digits[1:], strict=True)
        return " ".join(f"{before}+{digit}={after}" for (before, after), digit in steps)
