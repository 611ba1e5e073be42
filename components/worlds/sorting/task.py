"""Sorting digits: a toy task on which every algorithm can be tested."""

from __future__ import annotations

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.data.task import permutation
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example, is_held_out


class Sorting(metaclass=Checked):
    """``"529417>"`` asks for ``"124579"``; every string of ``length`` digits is one example.

    Args:
        length: digits of the longest prompt, at most 18; nothing is stored.
        held_out: share of the prompts that only evaluators see.
        shortest: digits of the shortest prompt; all lengths from there on are equally frequent, so
            that a right answer costs more on some prompts than on others. None: ``length``.
        bracketed: share of the demonstrations that stand in round brackets, so that a policy that
            imitated them can be rewarded for a format.
        descending: share of the demonstrations that are sorted downwards and so, as a rule, wrong:
            of a policy that imitated more of these than others the majority is wrong.
        shuffled: share of the demonstrations that are in no order: a policy that imitated them
            knows what an answer looks like, and right answers are luck.

    Raises:
        ConfigError: ``length`` is above 18, so that the examples cannot be counted, or ``shortest``
            above ``length``.

    Examples:
        >>> Sorting(length=6).example(529417).answer
        '124579'
        >>> [Sorting(length=3, shortest=2).example(n).prompt for n in (840, 841)]
        ['20>', '420>']
        >>> [Sorting(length=4, shuffled=1.0).example(n).demonstration for n in (1234, 1235)]
        ['1432', '3251']
    """

    def __init__(
        self,
        *,
        length: PositiveInt = 6,
        held_out: Fraction = 0.1,
        shortest: PositiveInt | None = None,
        bracketed: Probability = 0.0,
        descending: Probability = 0.0,
        shuffled: Probability = 0.0,
    ) -> None:
        if length > 18:
            raise ConfigError(f"Sorting: length is {length}: must be at most 18 (10**18 examples)")
        if shortest is not None and shortest > length:
            raise ConfigError(f"Sorting: shortest is {shortest}: must be at most length, {length}")
        self.length = length
        self.held_out = held_out
        self.shortest = shortest
        self.bracketed = bracketed
        self.descending = descending
        self.shuffled = shuffled
        self._lengths = range(shortest or length, length + 1)

    def __len__(self) -> int:
        """How many examples there are, training and held out; short prompts occur repeatedly."""
        return len(self._lengths) * int(10**self.length)

    def example(self, index: int) -> Example:
        """The example whose prompt is the index, written with leading zeros.

        With several lengths the remainder of the index chooses the length and the quotient is
        written, its first digits cut off where it is longer.
        """
        number, which = divmod(index, len(self._lengths))
        length = self._lengths[which]
        digits = f"{number % 10**length:0{length}d}"
        answer = "".join(sorted(digits))
        # Other hashes than that of the split: neither must depend on being held out.
        shown = answer[::-1] if is_held_out(f"<{digits}", self.descending) else answer
        if is_held_out(f"<{digits}>", self.shuffled):
            order = permutation(length, index, "shuffled")
            shown = "".join(digits[place] for place in order)
        wrapped = is_held_out(f"({digits})", self.bracketed)
        return Example(
            prompt=f"{digits}>",
            answer=answer,
            demonstration=f"({shown})" if wrapped else shown,
        )
