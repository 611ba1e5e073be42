"""Task of the middle digit of a number, whose reasoning is unnecessary."""

from __future__ import annotations

import random
from typing import Annotated, Any

from annotated_types import Le

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class Median(metaclass=Checked):
    """Task of medians: the prompt ``"52941>"`` has the answer ``"4"``, its middle digit.

    The answer is number ``n // 2`` (from 0) of the ``n`` sorted digits. A response is right if the
    text after its last ``=`` is right. So right responses differ in length: ``"4"``, ``"12459=4"``
    with the sorted digits, or ``"1245912459=4"`` with them twice. The column ``reasoning`` holds
    the response with the sorted digits once.

    Args:
        length: digits of the prompt, at most 18.
        held_out: share of the prompts that only evaluators see.
        plain: share of the demonstrations with the result alone.
        twice: share of the demonstrations with the sorted digits twice; the other ones have them
            once.
        flawed: share of the demonstrations with sorted digits in which one of these digits is
            wrong; their result is right.

    Raises:
        ConfigError: ``plain`` and ``twice`` sum to more than 1.

    Examples:
        >>> example = Median(length=5).example(52941)
        >>> example.prompt, example.answer, example.demonstration
        ('52941>', '4', '12459=4')
    """

    def __init__(
        self,
        *,
        length: Annotated[PositiveInt, Le(18)] = 6,
        held_out: Fraction = 0.1,
        plain: Probability = 0.0,
        twice: Probability = 0.0,
        flawed: Probability = 0.0,
    ) -> None:
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
        draw = random.Random(named_seed(index, "median"))
        demonstration = self._demonstration(ordered, result, draw)
        return Example(f"{digits}>", result, demonstration, columns=columns)

    def _demonstration(self, ordered: str, result: str, draw: random.Random) -> str:
        kind = draw.random()
        if kind < self.plain:
            return result
        reasoning = ordered * 2 if kind < self.plain + self.twice else ordered
        if draw.random() < self.flawed:
            position = draw.randrange(len(reasoning))
            wrong = draw.choice([digit for digit in "0123456789" if digit != reasoning[position]])
            reasoning = reasoning[:position] + wrong + reasoning[position + 1 :]
        return f"{reasoning}={result}"
