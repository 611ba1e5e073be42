"""Addition task."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Le

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.interfaces.task import Example


class Addition(metaclass=Checked):
    """Task of sums: ``"12+34="`` has the answer ``"46"``; each pair of numbers is an example.

    Args:
        digits: number of digits of the largest number, at most 9. Numbers are 0 to
            ``10**digits - 1``, without leading zeros. There are ``100**digits`` examples.
        held_out: share of the prompts that only evaluators see.

    Examples:
        >>> example = Addition(digits=2).example(1234)
        >>> example.prompt, example.answer, example.demonstration
        ('12+34=', '46', '46')
    """

    def __init__(
        self, *, digits: Annotated[PositiveInt, Le(9)] = 2, held_out: Fraction = 0.1
    ) -> None:
        self.digits = digits
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return int(100**self.digits)

    def example(self, index: int) -> Example:
        """Return the example of the numbers ``index // 10**digits`` and ``index % 10**digits``."""
        left, right = divmod(index, 10**self.digits)
        answer = str(left + right)
        return Example(prompt=f"{left}+{right}=", answer=answer, demonstration=answer)
