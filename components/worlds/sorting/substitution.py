"""Sorting under a rule that stands in the prompt: what is learnt at one value, asked at others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from rlcomp.arguments import Checked, Fraction, NonNegativeInt, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example


class Substitution(metaclass=Checked):
    """``"3:52?1?>"`` asks for ``"12335"``: digits in order, each ``?`` the value in front.

    Train on one value and ask others: what has learnt the rule holds, what has learnt the value
    does not (as J, Q and K count 10 or 11, 12, 13 in a card game).

    Args:
        length: places behind the colon, at most 12.
        hidden: of these, how many are ``?``; below ``length``.
        values: digits that stand in front; they take turns.
        held_out: share of the prompts that only evaluators see.

    Raises:
        ConfigError: ``length`` is above 12, ``hidden`` not below it, or ``values`` are not
            different digits.

    Source:
        Chu et al. 2025, arXiv:2501.17161 (GeneralPoints), for the question.

    Examples:
        >>> example = Substitution(values=[3]).example(521 * 10)
        >>> example.prompt, example.answer
        ('3:??521>', '12335')
    """

    def __init__(
        self,
        *,
        length: PositiveInt = 5,
        hidden: PositiveInt = 2,
        values: Sequence[NonNegativeInt] = tuple(range(10)),
        held_out: Fraction = 0.1,
    ) -> None:
        if length > 12:
            raise ConfigError(f"Substitution: length is {length}: must be at most 12")
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
        self._places = [*combinations(range(length), hidden)]

    def __len__(self) -> int:
        """How many examples there are, training and held out."""
        return int(len(self.values) * len(self._places) * 10 ** (self.length - self.hidden))

    def example(self, index: int) -> Example:
        """The example of an index: the value, where the hidden places are, the digits."""
        index, which = divmod(index, len(self.values))
        number, where = divmod(index, len(self._places))
        hidden, value = self._places[where], str(self.values[which])
        known = iter(f"{number:0{self.length - self.hidden}d}")
        shown = ["?" if place in hidden else next(known) for place in range(self.length)]
        answer = "".join(sorted(value if each == "?" else each for each in shown))
        return Example(f"{value}:{''.join(shown)}>", answer, answer)
