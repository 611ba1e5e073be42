"""Sorting digits as pairs: the right answer, and the same with one wrong digit."""

from __future__ import annotations

from components.worlds.sorting.task import Sorting
from rlcomp.arguments import Fraction, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example, is_held_out
from rlcomp.seed import named_seed


class SortingPairs(Sorting):
    """Task of pairs: ``"529417>"`` with ``"124579"`` chosen and ``"1245?9"`` rejected.

    The two answers share a prefix, so that a loss of their difference alone can lower both.

    Args:
        length: digits of a prompt, at most 18; nothing is stored.
        position: place of the wrong digit of the rejected answer, from 1.
        ties: share of the pairs without a preference: the other answer is the right one in round
            brackets.
        held_out: share of the prompts that only evaluators see.
        uneven: share of the pairs with a shorter rejected answer, which ends with the wrong digit.
        mislabelled: share of the other pairs with the wrong answer as the chosen one; 1/2 is a
            control without information.

    Raises:
        ConfigError: ``length`` is above 18, or ``position`` above ``length``.

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
        length: PositiveInt = 6,
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
        """Return the example whose prompt is the index, which also fixes the wrong digit."""
        right = super().example(index)
        if is_held_out(f"={right.prompt}", self.ties):  # not the hash of the split
            tie = {"rejected": f"({right.answer})", "tie": True, "label_noise": 0.5}
            return Example(right.prompt, right.answer, right.answer, columns=tie)
        place = self.position - 1
        shift = 1 + named_seed(index, "wrong digit") % 9
        wrong = (int(right.answer[place]) + shift) % 10
        shorter = is_held_out(f"|{right.prompt}", self.uneven)  # a third hash
        rest = "" if shorter else right.answer[self.position :]
        rejected = f"{right.answer[:place]}{wrong}{rest}"
        chosen = right.answer
        exchanged = is_held_out(f"?{right.prompt}", self.mislabelled)  # a fourth hash
        if exchanged and not right.is_held_out(self.held_out):
            chosen, rejected = rejected, chosen
        return Example(right.prompt, right.answer, chosen, columns={"rejected": rejected})
