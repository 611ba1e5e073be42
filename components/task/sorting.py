"""Sort the digits of a number: the smallest task on which everything can be seen to learn."""

from __future__ import annotations

from rlcomp.check import Checked, Fraction, PositiveInt
from rlcomp.data import Example
from rlcomp.errors import ConfigError


class Sorting(metaclass=Checked):
    """``"529417>"`` asks for ``"124579"``; every string of ``length`` digits is one example.

    Args:
        length: digits per prompt, at most 18; there are ``10**length`` examples, none is stored.
        held_out: share of the prompts that only evaluators see.

    Raises:
        ConfigError: ``length`` is above 18, so that the examples cannot be counted.

    Examples:
        >>> Sorting(length=6).example(529417).answer
        '124579'
    """

    def __init__(self, *, length: PositiveInt = 6, held_out: Fraction = 0.1) -> None:
        if length > 18:
            raise ConfigError(f"Sorting: length is {length}: must be at most 18 (10**18 examples)")
        self.length = length
        self.held_out = held_out

    def __len__(self) -> int:
        """How many examples there are, training and held out."""
        return int(10**self.length)

    def example(self, index: int) -> Example:
        """The example whose prompt is the index, written with leading zeros."""
        digits = f"{index:0{self.length}d}"
        answer = "".join(sorted(digits))
        return Example(prompt=f"{digits}>", answer=answer, demonstration=answer)
