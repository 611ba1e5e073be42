"""Task of sorting in an order that the prompt omits, for second attempts."""

from __future__ import annotations

import random
from typing import Annotated

from annotated_types import Le

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class UnsaidOrder(metaclass=Checked):
    """Task of a hidden order: the answer of ``"5294="`` is either ``"2459"`` or ``"9542"``.

    The prompt does not hold the order, and each order is right in half of the examples. So an
    attempt is right with probability at most 1/2. A second attempt is no better, unless a verifier
    says whether the first one was right (``environment=second_attempt``).

    A demonstration is a first attempt in a random order, ``"2459;"``, a message and a second
    attempt. The message is ``+|`` for a right attempt, ``-|`` for a wrong one, or ``?|``. With
    probability ``heeded`` the message is true and the second attempt is right; otherwise both are
    random.

    Args:
        length: digits of the prompt, at most 18.
        heeded: probability that a demonstration has a true message and follows it.
        held_out: share of the examples that only evaluators see.

    Examples:
        >>> task = UnsaidOrder(length=4)
        >>> [task.example(n).prompt + task.example(n).answer for n in (10588, 10589)]
        ['5294=2459', '5294=9542']
    """

    def __init__(
        self,
        *,
        length: Annotated[PositiveInt, Le(18)] = 3,
        heeded: Probability = 0.3,
        held_out: Fraction = 0.1,
    ) -> None:
        self.length = length
        self.heeded = heeded
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return int(2 * 10**self.length)

    def example(self, index: int) -> Example:
        """Return an example: the index's remainder chooses the order, its quotient the digits."""
        number, down = divmod(index, 2)
        digits = f"{number:0{self.length}d}"
        turns = self._turns(digits, bool(down), random.Random(named_seed(index, "unsaid order")))
        return Example(
            f"{digits}=",
            _sort(digits, down=bool(down)),
            "".join(turns),
            source=f"{digits}={down}",
            turns=turns,
        )

    def _turns(self, digits: str, down: bool, draw: random.Random) -> tuple[str, str, str]:
        """Return a first attempt, a message and a second attempt."""
        first, second, message = draw.random() < 0.5, draw.random() < 0.5, draw.choice("+-?")
        if draw.random() < self.heeded:
            second, message = down, "+" if first == down else "-"
        return f"{_sort(digits, down=first)};", f"{message}|", _sort(digits, down=second)


def _sort(digits: str, *, down: bool) -> str:
    return "".join(sorted(digits, reverse=down))
