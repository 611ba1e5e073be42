"""Addition task."""

from __future__ import annotations

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example


class Addition(metaclass=Checked):
    """Task of sums: ``"12+34="`` has the answer ``"46"``; every pair of numbers is one example.

    Args:
        digits: digits of the largest number, at most 9. Numbers are 0 to ``10**digits - 1``,
            without leading zeros. There are ``100**digits`` examples; none is stored.
        held_out: share of the prompts that only evaluators see.

    Raises:
        ConfigError: ``digits`` is above 9, so that the examples cannot be counted.

    Examples:
        >>> example = Addition(digits=2).example(1234)
        >>> example.prompt, example.answer, example.demonstration
        ('12+34=', '46', '46')
    """

    def __init__(self, *, digits: PositiveInt = 2, held_out: Fraction = 0.1) -> None:
        if digits > 9:
            raise ConfigError(f"Addition: digits is {digits}: must be at most 9 (10**18 examples)")
        self.digits = digits
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return int(100**self.digits)

    def example(self, index: int) -> Example:
        """Return the example with the index's leading and trailing digits as numbers."""
        left, right = divmod(index, 10**self.digits)
        answer = str(left + right)
        return Example(prompt=f"{left}+{right}=", answer=answer, demonstration=answer)
