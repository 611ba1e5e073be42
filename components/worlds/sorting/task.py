"""Sorting digits: a toy task for tests of every algorithm."""

from __future__ import annotations

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.data.task import permutation
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example, is_held_out


class Sorting(metaclass=Checked):
    """Task of sorting: ``"529417>"``, ``"124579"``; all strings of ``length`` digits.

    Args:
        length: digits of the longest prompt, at most 18; nothing is stored.
        held_out: share of the prompts that only evaluators see.
        shortest: digits of the shortest prompt; all lengths from there on are equally frequent, so
            that right answers differ in length. None: ``length``.
        bracketed: share of the demonstrations in round brackets, so that a policy that imitates
            them can be rewarded for a format.
        descending: share of the demonstrations that are sorted downwards and so mostly wrong; with
            more than half of them the majority of an imitating policy is wrong.
        shuffled: share of the demonstrations in random order: an imitating policy knows the form of
            an answer but is right only by chance.

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
        """Return the number of examples, training and held out; short prompts are repeated."""
        return len(self._lengths) * int(10**self.length)

    def example(self, index: int) -> Example:
        """Return the example whose prompt is the index with leading zeros.

        With several lengths the remainder of the index chooses the length, and the last digits of
        the quotient are the prompt.
        """
        number, which = divmod(index, len(self._lengths))
        length = self._lengths[which]
        digits = f"{number % 10**length:0{length}d}"
        answer = "".join(sorted(digits))
        # Hashes other than the split's, so that neither depends on being held out.
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
