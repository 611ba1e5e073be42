"""Tasks of sorting in other orders, scripts and values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Annotated, Literal

from annotated_types import Le

from rlcomp.arguments import Checked, Fraction, NonNegativeInt, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed


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
        # The first two are whether an attempt descends.
        first, second, message = draw.random() < 0.5, draw.random() < 0.5, draw.choice("+-?")
        if draw.random() < self.heeded:
            second, message = down, "+" if first == down else "-"
        return f"{_sort(digits, down=first)};", f"{message}|", _sort(digits, down=second)


def _sort(digits: str, *, down: bool) -> str:
    return "".join(sorted(digits, reverse=down))


LATIN = "abcdefghij"
CYRILLIC = "абвгдежзик"


class TwoScripts(metaclass=Checked):
    """Task of two scripts: ``"dbca>"`` has the answer ``"abcd"``, ``"гбва>"`` ``"абвг"``.

    The answer is sorted and in the prompt's script; the scripts of the prompts alternate. The
    column ``other_script`` holds the answer in the other script, as an answer in a wrong language.

    Args:
        length: letters of the prompt.
        strayed: share of the demonstrations in the other script.
        flawed: share of the demonstrations in random order with an additional letter in front.
        size: number of examples.
        held_out: share of the prompts that only evaluators see.

    Source:
        After DeepSeek-AI 2025 (R1), arXiv:2501.12948, section 2.3.2 (RL mixes languages).

    Examples:
        >>> task = TwoScripts(length=4)
        >>> [(e.prompt, e.answer, e.columns["other_script"]) for e in map(task.example, (0, 1))]
        [('hijb>', 'bhij', 'бзик'), ('джаг>', 'агдж', 'adeg')]
    """

    def __init__(
        self,
        *,
        length: PositiveInt = 6,
        strayed: Probability = 0.0,
        flawed: Probability = 0.0,
        size: PositiveInt = 1_000_000,
        held_out: Fraction = 0.1,
    ) -> None:
        self.length = length
        self.strayed = strayed
        self.flawed = flawed
        self.size = size
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.size

    def example(self, index: int) -> Example:
        """Return the example drawn for the index."""
        draw = random.Random(named_seed(index, "two scripts"))
        letters = [draw.randrange(len(LATIN)) for _ in range(self.length)]
        script, other_script = (LATIN, CYRILLIC) if index % 2 == 0 else (CYRILLIC, LATIN)
        ordered = sorted(letters)
        flawed = [draw.randrange(len(LATIN)), *draw.sample(letters, len(letters))]
        demonstration = flawed if draw.random() < self.flawed else ordered
        demonstration_script = other_script if draw.random() < self.strayed else script
        return Example(
            f"{_write(letters, script)}>",
            _write(ordered, script),
            _write(demonstration, demonstration_script),
            columns={"other_script": _write(ordered, other_script)},
        )


def _write(letters: list[int], script: str) -> str:
    """Return the letters with these numbers in a script."""
    return "".join(script[letter] for letter in letters)


class Substitution(metaclass=Checked):
    """Task of substitutions: the prompt ``"3:52?1?>"`` has the answer ``"12335"``.

    Each ``?`` stands for the digit before the colon, and the answer is sorted. Train on one such
    digit and evaluate on others: a policy that has learnt the rule stays right, but a policy that
    has learnt the digit does not. In the source's card game, J, Q and K count as 10 or as 11, 12,
    13.

    Args:
        length: number of characters after the colon, at most 12.
        hidden: number of ``?`` among them; below ``length``.
        values: digits before the colon; they alternate.
        held_out: share of the prompts that only evaluators see.

    Raises:
        ConfigError: ``hidden`` is not below ``length``, or ``values`` are not different digits.

    Source:
        After Chu et al. 2025, arXiv:2501.17161 (GeneralPoints).

    Examples:
        >>> example = Substitution(values=[3]).example(521 * 10)
        >>> example.prompt, example.answer
        ('3:??521>', '12335')
    """

    def __init__(
        self,
        *,
        length: Annotated[PositiveInt, Le(12)] = 5,
        hidden: PositiveInt = 2,
        values: Sequence[NonNegativeInt] = tuple(range(10)),
        held_out: Fraction = 0.1,
    ) -> None:
        if hidden >= length:
            raise ConfigError(f"Substitution: hidden is {hidden}: must be below length, {length}")
        if not values or len(set(values)) < len(values) or max(values) > 9:
            raise ConfigError(
                f"Substitution: values is {list(values)}: must be different digits, at least one"
            )
        self.length = length
        self.hidden = hidden
        self.values = list(values)
        self.held_out = held_out
        self._positions = [*combinations(range(length), hidden)]

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return int(len(self.values) * len(self._positions) * 10 ** (self.length - self.hidden))

    def example(self, index: int) -> Example:
        """Return the example of an index.

        The index's remainders choose the value and the positions of ``?``; its quotient has the
        digits.
        """
        index, value_index = divmod(index, len(self.values))
        number, choice = divmod(index, len(self._positions))
        positions, value = self._positions[choice], str(self.values[value_index])
        digits = iter(f"{number:0{self.length - self.hidden}d}")
        text = "".join("?" if n in positions else next(digits) for n in range(self.length))
        answer = "".join(sorted(text.replace("?", value)))
        return Example(f"{value}:{text}>", answer, answer)
