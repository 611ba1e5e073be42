"""Middle digit of a number: a toy task with unnecessary reasoning."""

from __future__ import annotations

import random
from typing import Any

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Median(metaclass=Checked):
    """Task of medians: ``"52941>"``, ``"4"``, the middle digit; ``"12459=4"`` sorts first.

    A response is right if the text after its last ``=`` is right. So right responses differ in
    length: the result alone, after the sorted digits, or after these twice. The result is number
    ``n // 2`` (from 0) of the ``n`` sorted digits. The column ``reasoning`` holds the response that
    sorts once.

    Args:
        length: digits of the prompt, at most 18; nothing is stored.
        held_out: share of the prompts that only evaluators see.
        plain: share of the demonstrations with only the result.
        twice: share of the demonstrations that sort twice; the rest sorts once.
        flawed: share of the sorting demonstrations with a wrong digit; their result is right.

    Raises:
        ConfigError: ``length`` is above 18, or ``plain`` and ``twice`` sum to more than 1.

    Examples:
        >>> example = Median(length=5).example(52941)
        >>> example.prompt, example.answer, example.demonstration
        ('52941>', '4', '12459=4')
    """

    def __init__(
        self,
        *,
        length: PositiveInt = 6,
        held_out: Fraction = 0.1,
        plain: Probability = 0.0,
        twice: Probability = 0.0,
        flawed: Probability = 0.0,
    ) -> None:
        if length > 18:
            raise ConfigError(f"Median: length is {length}: must be at most 18 (10**18 examples)")
        if plain + twice > 1:
            raise ConfigError(
                f"Median: plain is {plain:g} and twice {twice:g}: must sum to at most 1"
            )
        self.length = length
        self.held_out = held_out
        self.plain = plain
        self.twice = twice
        self.flawed = flawed

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return int(10**self.length)

    def example(self, index: int) -> Example:
        """Return the example whose prompt is the index with leading zeros."""
        digits = f"{index:0{self.length}d}"
        ordered = "".join(sorted(digits))
        result = ordered[self.length // 2]
        columns: dict[str, Any] = {"reasoning": f"{ordered}={result}"}
        shown = self._demonstration(ordered, result, random.Random(named_seed(index, "median")))
        return Example(f"{digits}>", result, shown, columns=columns)

    def _demonstration(self, ordered: str, result: str, draw: random.Random) -> str:
        kind = draw.random()
        if kind < self.plain:
            return result
        written = ordered * 2 if kind < self.plain + self.twice else ordered
        if draw.random() < self.flawed:
            place = draw.randrange(len(written))
            other = draw.choice([digit for digit in "0123456789" if digit != written[place]])
            written = written[:place] + other + written[place + 1 :]
        return f"{written}={result}"
