"""Sorting upwards or downwards by the end of the prompt, two opposite rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example


class TwoOrders(metaclass=Checked):
    """Task of two orders: ``"5294>"`` has the answer ``"2459"``, ``"5294?"`` ``"9542"``.

    Train on one order and evaluate the other: the new rule contradicts the old one.

    Args:
        length: digits of the prompt, at most 18; nothing is stored.
        orders: orders of the prompts; they alternate.
        held_out: share of the prompts that only evaluators see.

    Raises:
        ConfigError: ``length`` is above 18, or ``orders`` is empty or names one twice.

    Examples:
        >>> task = TwoOrders(length=4)
        >>> [task.example(n).prompt + task.example(n).answer for n in (10588, 10589)]
        ['5294>2459', '5294?9542']
    """

    def __init__(
        self,
        *,
        length: PositiveInt = 6,
        orders: Sequence[Literal["up", "down"]] = ("up", "down"),
        held_out: Fraction = 0.1,
    ) -> None:
        if length > 18:
            raise ConfigError(f"TwoOrders: length is {length}: must be at most 18")
        if not orders or len(set(orders)) < len(orders):
            raise ConfigError(f"TwoOrders: orders is {list(orders)}: must be up, down or both")
        self.length = length
        self.orders = list(orders)
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return int(len(self.orders) * 10**self.length)

    def example(self, index: int) -> Example:
        """Return an example: the index's remainder chooses the order, its quotient the digits."""
        number, which = divmod(index, len(self.orders))
        down = self.orders[which] == "down"
        digits = f"{number:0{self.length}d}"
        answer = "".join(sorted(digits, reverse=down))
        return Example(f"{digits}{'?' if down else '>'}", answer, answer)
