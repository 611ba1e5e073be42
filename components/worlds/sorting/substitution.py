"""Sorting with a rule in the prompt, to test generalisation to other values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from rlcomp.arguments import Checked, Fraction, NonNegativeInt, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example


class Substitution(metaclass=Checked):
    """Task of substitutions: ``"3:52?1?>"``, ``"12335"``; each ``?`` is the value in front.

    Train on one value and evaluate others: a policy that has learnt the rule stays right, one that
    has learnt the value does not (like J, Q and K as 10 or as 11, 12, 13 in a card game).

    Args:
        length: number of places after the colon, at most 12.
        hidden: number of ``?`` among them; below ``length``.
        values: digits in front; they alternate.
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
        """Return the number of examples, training and held out."""
        return int(len(self.values) * len(self._places) * 10 ** (self.length - self.hidden))

    def example(self, index: int) -> Example:
        """Return the example of an index, which gives the value, the hidden places, the digits."""
        index, which = divmod(index, len(self.values))
        number, where = divmod(index, len(self._places))
        hidden, value = self._places[where], str(self.values[which])
        known = iter(f"{number:0{self.length - self.hidden}d}")
        shown = ["?" if place in hidden else next(known) for place in range(self.length)]
        answer = "".join(sorted(value if each == "?" else each for each in shown))
        return Example(f"{value}:{''.join(shown)}>", answer, answer)
