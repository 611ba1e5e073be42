"""Task of sorting with a rule in the prompt, to test generalisation to other values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Annotated

from annotated_types import Le

from rlcomp.arguments import Checked, Fraction, NonNegativeInt, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example


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
        hidden, value = self._positions[choice], str(self.values[value_index])
        digits = iter(f"{number:0{self.length - self.hidden}d}")
        text = "".join("?" if n in hidden else next(digits) for n in range(self.length))
        answer = "".join(sorted(text.replace("?", value)))
        return Example(f"{value}:{text}>", answer, answer)
