"""Sorting digits with some of them wrong, rated as a whole and digit by digit."""

from __future__ import annotations

import random

from components.worlds.sorting.task import Sorting
from rlcomp.arguments import Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example, is_held_out
from rlcomp.seed import named_seed


class SortingGraded(Sorting):
    """Task of answers such as ``"12?579"`` to ``"529417>"``, some wrong, with three labels.

    The demonstration is such an answer and not for imitation. Its columns are ``rating``, 1 +
    ``most`` minus the number of wrong digits; ``desirable``, whether no digit is wrong; ``steps``,
    the digits; and ``step_labels``, whether a digit and all before it are right.

    The numbers and the places of wrong digits are equally frequent.

    Args:
        length: digits of a prompt, at most 18; nothing is stored.
        most: wrong digits of the worst answers; at most ``length``.
        held_out: share of the prompts that only evaluators see.
        mislabelled: share of the answers with the labels of another draw; 1 is a control without
            information.

    Raises:
        ConfigError: ``length`` is above 18, or ``most`` above ``length``.

    Examples:
        >>> example = SortingGraded(length=6, most=2).example(529417)
        >>> example.demonstration, example.columns["rating"]
        ('104579', 2)
        >>> example.columns["step_labels"]
        [True, False, False, False, False, False]
    """

    def __init__(
        self,
        *,
        length: PositiveInt = 6,
        most: PositiveInt = 4,
        held_out: Fraction = 0.1,
        mislabelled: Probability = 0.0,
    ) -> None:
        super().__init__(length=length, held_out=held_out)
        if most > length:
            raise ConfigError(f"SortingGraded: most is {most}: must be at most length, {length}")
        self.most = most
        self.mislabelled = mislabelled

    def example(self, index: int) -> Example:
        """Return the example whose prompt is the index, which also fixes the wrong digits."""
        right = super().example(index)
        draw = random.Random(named_seed(index, "graded"))
        wrong = self._places(draw)
        digits = [
            str((int(digit) + draw.randint(1, 9)) % 10) if place in wrong else digit
            for place, digit in enumerate(right.answer)
        ]
        chosen = is_held_out(f"?{right.prompt}", self.mislabelled)  # not the hash of the split
        if chosen and not right.is_held_out(self.held_out):
            wrong = self._places(random.Random(named_seed(index, "labels of another answer")))
        columns = {
            "rating": 1 + self.most - len(wrong),
            "desirable": not wrong,
            "steps": digits,
            "step_labels": [not any(n <= place for n in wrong) for place in range(self.length)],
        }
        return Example(right.prompt, right.answer, "".join(digits), columns=columns)

    def _places(self, draw: random.Random) -> set[int]:
        """Return the places of the wrong digits."""
        return set(draw.sample(range(self.length), draw.randint(0, self.most)))
