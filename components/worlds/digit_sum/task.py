"""Task of digit sums: it needs reasoning, but a guess is often right."""

from __future__ import annotations

import random
import sys
from itertools import accumulate
from typing import Annotated, Any

from annotated_types import Interval, Le

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class DigitSum(metaclass=Checked):
    """Task of digit sums: the prompt ``"3142>"`` has the answer ``"0"``, the sum modulo 5.

    The demonstration ``"33144320=0"`` writes each digit and the sum so far, then the answer. A
    response is right if the text after its last ``=`` is right. A guess is right with probability
    1 / ``modulus``. The column ``reasoning`` holds the response with all sums.

    Args:
        modulus: modulus of the sums; digits are below it.
        shortest: digits of the shortest prompt; all lengths up to ``longest`` alternate.
        longest: digits of the longest prompt, at most 18.
        held_out: share of the prompts that only evaluators see.
        guessed: share of the demonstrations that are ``=`` and a random digit.
        flawed: share of wrong sums in the other demonstrations; later sums continue from them.

    Raises:
        ConfigError: ``shortest`` is above ``longest``, or the number of examples exceeds
            ``sys.maxsize``.

    Examples:
        >>> task = DigitSum(shortest=4, longest=4)
        >>> task.example(3 * 125 + 1 * 25 + 4 * 5 + 2).demonstration
        '33144320=0'
    """

    def __init__(
        self,
        *,
        modulus: Annotated[int, Interval(ge=2, le=10)] = 5,
        shortest: PositiveInt = 4,
        longest: Annotated[PositiveInt, Le(18)] = 4,
        held_out: Fraction = 0.1,
        guessed: Probability = 0.0,
        flawed: Probability = 0.0,
    ) -> None:
        if shortest > longest:
            raise ConfigError(
                f"DigitSum: shortest is {shortest} and longest {longest}: shortest must be at most "
                "longest"
            )
        if (longest - shortest + 1) * modulus**longest > sys.maxsize:
            raise ConfigError(
                f"DigitSum: modulus {modulus}, shortest {shortest} and longest {longest} give more "
                f"than {sys.maxsize} examples: lower longest"
            )
        self.modulus = modulus
        self.held_out = held_out
        self.guessed = guessed
        self.flawed = flawed
        self._lengths = range(shortest, longest + 1)

    def __len__(self) -> int:
        """Return the number of examples, training and held out; short prompts occur repeatedly."""
        return len(self._lengths) * int(self.modulus ** self._lengths[-1])

    def example(self, index: int) -> Example:
        """Return the example whose prompt is the index in base ``modulus`` with leading zeros.

        With ``n > 1`` lengths, ``index % n`` chooses the length, and the prompt is the last digits
        of ``index // n``.
        """
        number, remainder = divmod(index, len(self._lengths))
        digits: list[int] = []
        for _ in range(self._lengths[remainder]):
            number, digit = divmod(number, self.modulus)
            digits.insert(0, digit)
        draw = random.Random(named_seed(index, "digit sum"))
        reasoning = self._write_sums(digits, digits)
        columns: dict[str, Any] = {"reasoning": reasoning}
        prompt = "".join(map(str, digits))
        demonstration = self._demonstration(digits, draw)
        return Example(f"{prompt}>", reasoning[-1], demonstration, columns=columns)

    def _demonstration(self, digits: list[int], draw: random.Random) -> str:
        if draw.random() < self.guessed:
            return f"={draw.randrange(self.modulus)}"
        flaws = [draw.random() < self.flawed for _ in digits]
        summands = [
            digit + flaw * draw.randrange(1, self.modulus)
            for digit, flaw in zip(digits, flaws, strict=True)
        ]
        return self._write_sums(digits, summands)

    def _write_sums(self, digits: list[int], summands: list[int]) -> str:
        """Return each digit with the sum of the summands up to it, then ``=`` and the last sum."""
        sums = [total % self.modulus for total in accumulate(summands)]
        steps = "".join(f"{digit}{total}" for digit, total in zip(digits, sums, strict=True))
        return f"{steps}={sums[-1]}"
