"""Sum of digits: a toy task that needs reasoning and has an answer that can be guessed."""

from __future__ import annotations

import random
import sys
from itertools import accumulate
from typing import Any

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class DigitSum(metaclass=Checked):
    """Task of sums modulo 5: ``"3142>"``, ``"0"``; ``"33144320=0"`` writes each digit and sum.

    A response is right if the text after its last ``=`` is right; a guess is right with probability
    1 / ``modulus``. The column ``reasoning`` holds the response with all sums.

    Args:
        modulus: modulus of the sums; digits are below it.
        shortest: digits of the shortest prompt; all lengths up to ``longest`` alternate.
        longest: digits of the longest prompt, at most 18; nothing is stored.
        held_out: share of the prompts that only evaluators see.
        guessed: share of the demonstrations that are ``=`` and any digit below ``modulus``.
        flawed: share of the other demonstrations' steps with a wrong sum, which they continue with.

    Raises:
        ConfigError: ``modulus`` is not one of 2 to 10, ``longest`` is above 18, ``shortest`` above
            ``longest``, or there are more examples than an index counts.

    Examples:
        >>> task = DigitSum(shortest=4, longest=4)
        >>> task.example(3 * 125 + 1 * 25 + 4 * 5 + 2).demonstration
        '33144320=0'
    """

    def __init__(
        self,
        *,
        modulus: PositiveInt = 5,
        shortest: PositiveInt = 4,
        longest: PositiveInt = 4,
        held_out: Fraction = 0.1,
        guessed: Probability = 0.0,
        flawed: Probability = 0.0,
    ) -> None:
        if not 2 <= modulus <= 10:
            raise ConfigError(f"DigitSum: modulus is {modulus}: must be 2 to 10")
        if not shortest <= longest <= 18:
            raise ConfigError(
                f"DigitSum: shortest is {shortest} and longest {longest}: shortest must be at most "
                "longest, and longest at most 18"
            )
        if (longest - shortest + 1) * modulus**longest > sys.maxsize:
            raise ConfigError(
                f"DigitSum: modulus is {modulus}, shortest {shortest} and longest {longest}: those "
                f"are more than {sys.maxsize} examples, which no index counts; lower longest"
            )
        self.modulus = modulus
        self.held_out = held_out
        self.guessed = guessed
        self.flawed = flawed
        self._lengths = range(shortest, longest + 1)

    def __len__(self) -> int:
        """Return the number of examples, training and held out; short prompts are repeated."""
        return len(self._lengths) * int(self.modulus ** self._lengths[-1])

    def example(self, index: int) -> Example:
        """Return the example whose prompt is the index in base ``modulus`` with leading zeros.

        With several lengths the remainder of the index chooses the length, and the last digits of
        the quotient are the prompt.
        """
        number, which = divmod(index, len(self._lengths))
        digits: list[int] = []
        for _ in range(self._lengths[which]):
            number, digit = divmod(number, self.modulus)
            digits.insert(0, digit)
        draw = random.Random(named_seed(index, "digit sum"))
        reasoning = self._written(digits, digits)
        columns: dict[str, Any] = {"reasoning": reasoning}
        prompt = "".join(map(str, digits))
        shown = self._demonstration(digits, draw)
        return Example(f"{prompt}>", reasoning[-1], shown, columns=columns)

    def _demonstration(self, digits: list[int], draw: random.Random) -> str:
        if draw.random() < self.guessed:
            return f"={draw.randrange(self.modulus)}"
        flaws = [draw.random() < self.flawed for _ in digits]
        added = [
            digit + flaw * draw.randrange(1, self.modulus)
            for digit, flaw in zip(digits, flaws, strict=True)
        ]
        return self._written(digits, added)

    def _written(self, digits: list[int], added: list[int]) -> str:
        """Return each digit with the sum so far, and the result."""
        sums = [total % self.modulus for total in accumulate(added)]
        steps = "".join(f"{digit}{total}" for digit, total in zip(digits, sums, strict=True))
        return f"{steps}={sums[-1]}"
