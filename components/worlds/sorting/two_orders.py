"""Task of sorting in the order that the end of the prompt names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from annotated_types import Le

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example


class TwoOrders(metaclass=Checked):
    """Task of two orders: ``"5294>"`` has the answer ``"2459"``, ``"5294?"`` ``"9542"``.

    A run can train on one order and evaluate on the other, so that the two rules contradict each
    other.

    Args:
        length: digits of the prompt, at most 18.
        orders: orders of the prompts; they alternate.
        held_out: share of the prompts that only evaluators see.

    Raises:
        ConfigError: ``orders`` is empty or names an order twice.

    Examples:
        >>> task = TwoOrders(length=4)
        >>> [task.example(n).prompt + task.example(n).answer for n in (10588, 10589)]
        ['5294>2459', '5294?9542']
    """

    def __init__(
        self,
        *,
        length: Annotated[PositiveInt, Le(18)] = 6,
        orders: Sequence[Literal["up", "down"]] = ("up", "down"),
        held_out: Fraction = 0.1,
    ) -> None:
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
        number, remainder = divmod(index, len(self.orders))
        down = self.orders[remainder] == "down"
        digits = f"{number:0{self.length}d}"
        answer = "".join(sorted(digits, reverse=down))
        return Example(f"{digits}{'?' if down else '>'}", answer, answer)
