"""Tasks of sorting with answers of different quality and labels: pairs and graded answers."""

from __future__ import annotations

import random
from typing import Annotated

from annotated_types import Le

from components.worlds.sorting.task import Sorting
from rlcomp.arguments import Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example, is_held_out
from rlcomp.seed import named_seed


class SortingPairs(Sorting):
    """Task of pairs: for ``"529417>"`` the answer ``"124579"`` is chosen, ``"1245?9"`` rejected.

    ``?`` stands for a random wrong digit. The two answers share a prefix, so that a loss that
    depends only on the difference of their log-probs can lower both.

    Args:
        length: digits of a prompt, at most 18.
        position: position of the wrong digit of the rejected answer, from 1.
        held_out: share of the prompts that only evaluators see.
        ties: share of the pairs without a preference: their rejected answer is the chosen answer in
            round brackets, the column ``tie`` is true and the column ``label_noise`` is 1/2.
        uneven: share of the other pairs whose rejected answer ends with the wrong digit, so that it
            is shorter.
        mislabelled: share of the training pairs, except ties, with the chosen and the rejected
            answer exchanged; 1/2 is a control without information.

    Raises:
        ConfigError: ``position`` is above ``length``.

    Examples:
        >>> example = SortingPairs(length=6, position=5).example(529417)
        >>> example.demonstration
        '124579'
        >>> [x == y for x, y in zip(example.answer, example.columns["rejected"], strict=True)]
        [True, True, True, True, False, True]
    """

    def __init__(
        self,
        *,
        length: Annotated[PositiveInt, Le(18)] = 6,
        position: PositiveInt = 5,
        held_out: Fraction = 0.1,
        ties: Probability = 0.0,
        uneven: Probability = 0.0,
        mislabelled: Probability = 0.0,
    ) -> None:
        super().__init__(length=length, held_out=held_out)
        if position > length:
            raise ConfigError(
                f"SortingPairs: position is {position}: must be at most length, {length}"
            )
        self.position = position
        self.ties = ties
        self.uneven = uneven
        self.mislabelled = mislabelled

    def example(self, index: int) -> Example:
        """Return the example whose prompt is the index; its wrong digit follows from the index."""
        right = super().example(index)
        # Hashes other than the hash of the held-out split, so that all shares are independent.
        if is_held_out(f"={right.prompt}", self.ties):
            tie = {"rejected": f"({right.answer})", "tie": True, "label_noise": 0.5}
            return Example(right.prompt, right.answer, right.answer, columns=tie)
        prefix, digit = right.answer[: self.position - 1], right.answer[self.position - 1]
        shift = 1 + named_seed(index, "wrong digit") % 9
        is_shorter = is_held_out(f"|{right.prompt}", self.uneven)
        suffix = "" if is_shorter else right.answer[self.position :]
        rejected = f"{prefix}{(int(digit) + shift) % 10}{suffix}"
        chosen = right.answer
        is_mislabelled = is_held_out(f"?{right.prompt}", self.mislabelled)
        if is_mislabelled and not right.is_held_out(self.held_out):
            chosen, rejected = rejected, chosen
        return Example(right.prompt, right.answer, chosen, columns={"rejected": rejected})


class SortingGraded(Sorting):
    """Task of sorting whose demonstrations have 0 to ``most`` wrong digits, with labels.

    The demonstrations are not for imitation. The labels of a demonstration are its columns:
    ``rating``, 1 + ``most`` minus the number of wrong digits; ``desirable``, whether all digits are
    right; ``steps``, the digits; and ``step_labels``, whether a digit and all digits before it are
    right.

    Every number of wrong digits is equally frequent, and so is every position of a wrong digit.

    Args:
        length: digits of a prompt, at most 18.
        most: largest number of wrong digits, at most ``length``.
        held_out: share of the prompts that only evaluators see.
        mislabelled: share of the training examples whose labels belong to other, random wrong
            digits; 1 is a control without information.

    Raises:
        ConfigError: ``most`` is above ``length``.

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
        length: Annotated[PositiveInt, Le(18)] = 6,
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
        """Return the example whose prompt is the index; its wrong digits follow from the index."""
        right = super().example(index)
        draw = random.Random(named_seed(index, "graded"))
        wrong = self._draw_positions(draw)
        digits = [
            str((int(digit) + draw.randint(1, 9)) % 10) if position in wrong else digit
            for position, digit in enumerate(right.answer)
        ]
        # This hash differs from the hash of the held-out split.
        is_mislabelled = is_held_out(f"?{right.prompt}", self.mislabelled)
        if is_mislabelled and not right.is_held_out(self.held_out):
            wrong = self._draw_positions(
                random.Random(named_seed(index, "labels of another answer"))
            )
        columns = {
            "rating": 1 + self.most - len(wrong),
            "desirable": not wrong,
            "steps": digits,
            "step_labels": [min(wrong, default=self.length) > n for n in range(self.length)],
        }
        return Example(right.prompt, right.answer, "".join(digits), columns=columns)

    def _draw_positions(self, draw: random.Random) -> set[int]:
        """Draw the positions of the wrong digits."""
        return set(draw.sample(range(self.length), draw.randint(0, self.most)))
