"""Addition task."""

from __future__ import annotations

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example


class Addition(metaclass=Checked):
    """``"12+34="`` asks for ``"46"``; every pair of numbers is one example.

    Args:
        digits: the numbers run from 0 to ``10**digits - 1``, written without leading zeros; at most
            9; there are ``100**digits`` examples, none is stored.
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
        """How many examples there are, training and held out."""
        return int(100**self.digits)

    def example(self, index: int) -> Example:
        """The example whose two numbers are the index's leading and trailing digits."""
        left, right = divmod(index, 10**self.digits)
        answer = str(left + right)
        return Example(prompt=f"{left}+{right}=", answer=answer, demonstration=answer)
