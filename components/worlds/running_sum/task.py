"""Synthetic corpus of modular sums, whose last token alone needs computation."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Annotated

from annotated_types import Ge, Interval

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class RunningSum(metaclass=Checked):
    """Task of documents such as ``"7+5+8+3=3"``: digits and the last digit of their sum.

    All tokens except the last one are noise; the last one follows from them. The answer is the
    document. The demonstration is the document without its first digit. Short documents occur
    repeatedly.

    With ``probabilities`` the digits from the third on have the probabilities ``p_d``, and an
    entropy of ``H = -sum_d p_d log p_d`` nats each. The first two digits stay uniform. So the
    result stays uniform (``log modulus`` nats) given all digits except the first, and given all
    digits except the second. A model that cannot add gains nothing from the other digits.

    Args:
        modulus: modulus of the sums; digits are below it.
        shortest: smallest number of digits in a sum, at least 2.
        longest: largest number of digits in a sum; all numbers in between are equally frequent.
        probabilities: ``p_d`` of the digits 0, 1, ... from the third digit on; None: all digits are
            uniform.
        size: number of documents.
        held_out: share of the documents that only evaluators see.

    Raises:
        ConfigError: ``shortest`` is above ``longest``, or ``probabilities`` are not ``modulus``
            numbers that sum to 1.

    Examples:
        >>> RunningSum().example(0).answer
        '0+7+1=8'
    """

    def __init__(
        self,
        *,
        modulus: Annotated[int, Interval(ge=2, le=10)] = 10,
        shortest: Annotated[int, Ge(2)] = 3,
        longest: PositiveInt = 6,
        probabilities: Sequence[Probability] | None = None,
        size: PositiveInt = 5_000,
        held_out: Fraction = 0.1,
    ) -> None:
        if shortest > longest:
            raise ConfigError(
                f"RunningSum: shortest is {shortest}: must be at most longest, {longest}"
            )
        if probabilities is not None and (
            len(probabilities) != modulus or not math.isclose(sum(probabilities), 1, abs_tol=1e-6)
        ):
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
        uniform_count = count if self.probabilities is None else 2
        digits = [draw.randrange(self.modulus) for _ in range(uniform_count)]
        if self.probabilities is not None:
            digits += draw.choices(range(self.modulus), self.probabilities, k=count - uniform_count)
        text = f"{'+'.join(map(str, digits))}={sum(digits) % self.modulus}"
        return Example(text[:1], text, text[1:], source=text)


class RunningSums(metaclass=Checked):
    """Function that writes the running sums of a text's last line as a chain of thought.

    Args:
        modulus: modulus of the sums.

    Examples:
        >>> RunningSums()("7+5+8+3=")
        '7+5=2 2+8=0 0+3=3'
    """

    def __init__(self, *, modulus: PositiveInt = 10) -> None:
        self.modulus = modulus

    def __call__(self, context: str) -> str:
        """Return the running sums of the digits in the last line of ``context``."""
        digits = [int(digit) for digit in re.findall("[0-9]", context.rpartition("\n")[2])]
        sums = accumulate(digits, lambda total, digit: (total + digit) % self.modulus)
        steps = zip(pairwise(sums), digits[1:], strict=True)
        return " ".join(f"{before}+{digit}={after}" for (before, after), digit in steps)
