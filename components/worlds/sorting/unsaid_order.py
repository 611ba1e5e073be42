"""Sorting in an order that the prompt omits: a toy task for a second attempt."""

from __future__ import annotations

import random

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


class UnsaidOrder(metaclass=Checked):
    """Task of a hidden order: ``"5294="`` asks for either ``"2459"`` or ``"9542"``.

    The prompt does not hold the order, and each is right in half of the examples. So an attempt is
    right with probability 1/2 at most, and a second one too, unless a verifier says that the
    first was wrong (``environment=second_attempt``).

    A demonstration is an attempt in a random order, ``"2459;"``, a message, ``+|`` for right,
    ``-|`` for wrong or ``?|``, and a second attempt. With probability ``heeded`` the message is
    true and the second attempt follows from it; otherwise both are random.

    Args:
        length: digits of the prompt, at most 18; nothing is stored.
        heeded: probability that a demonstration uses the message.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: ``length`` is above 18.

    Examples:
        >>> task = UnsaidOrder(length=4)
        >>> [task.example(n).prompt + task.example(n).answer for n in (10588, 10589)]
        ['5294=2459', '5294=9542']
    """

    def __init__(
        self,
        *,
        length: PositiveInt = 3,
        heeded: Probability = 0.3,
        held_out: Fraction = 0.1,
    ) -> None:
        if length > 18:
            raise ConfigError(f"UnsaidOrder: length is {length}: must be at most 18")
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
            _sorted(digits, down=bool(down)),
            "".join(turns),
            source=f"{digits}={down}",
            turns=turns,
        )

    def _turns(self, digits: str, down: bool, draw: random.Random) -> tuple[str, str, str]:
        first, second, message = draw.random() < 0.5, draw.random() < 0.5, draw.choice("+-?")
        if draw.random() < self.heeded:
            second, message = down, "+" if first == down else "-"
        return f"{_sorted(digits, down=first)};", f"{message}|", _sorted(digits, down=second)


def _sorted(digits: str, *, down: bool) -> str:
    return "".join(sorted(digits, reverse=down))
