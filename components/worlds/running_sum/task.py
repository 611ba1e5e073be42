"""Synthetic corpus of modular sums, in which only the last token needs computation."""

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
    """Task of documents such as ``"7+5+8+3=3"``: digits and the last digit of their sum.

    In this corpus all tokens but one are noise, and that one follows from all others. The answer is
    the document, and the demonstration continues after its first digit. Short documents are
    repeated.

    With ``probabilities`` the digits after the second follow these probabilities,
    ``H = -sum_d p_d log p_d`` nats each, while the first two stay uniform. Then the result is
    uniform (``log modulus`` nats) and independent of all operands without the first, and of all
    without the second. So a model that cannot add predicts it no better.

    Args:
        modulus: modulus of the sums; digits are below it.
        shortest: fewest digits in a sum, at least 2.
        longest: most digits in a sum; all numbers in between are equally frequent.
        probabilities: probabilities of the digits 0, 1, ... from the third operand on; null: all
            are equal.
        size: number of documents; none is stored.
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
        """Return the number of documents, training and held out."""
        return self.size

    def example(self, index: int) -> Example:
        """Return the document of an index."""
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
    """Running sums of a text's last line, as a chain of thought of demonstrations.

    Args:
        modulus: modulus of the sums.

    Examples:
        >>> RunningSums()("7+5+8+3=")
        '7+5=2 2+8=0 0+3=3'
    """

    def __init__(self, *, modulus: PositiveInt = 10) -> None:
        self.modulus = modulus

    def __call__(self, context: str) -> str:
        """Return the thought of a context."""
        digits = [int(digit) for digit in re.findall("[0-9]", context.rpartition("\n")[2])]
        sums = accumulate(digits, lambda total, digit: (total + digit) % self.modulus)
        steps = zip(pairwise(sums), digits[1:], strict=True)
        return " ".join(f"{before}+{digit}={after}" for (before, after), digit in steps)
