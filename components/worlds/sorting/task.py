"""Task of sorting digits, a small task for every algorithm."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Le

from rlcomp.arguments import Checked, Fraction, PositiveInt, Probability
from rlcomp.data.permutation import permutation
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example, is_held_out


class Sorting(metaclass=Checked):
    """Task of sorting: the prompt ``"529417>"`` has the answer ``"124579"``.

    Every string of ``length`` digits is a prompt.

    Args:
        length: digits of the longest prompt, at most 18.
        held_out: share of the prompts that only evaluators see.
        shortest: digits of the shortest prompt; all lengths from it to ``length`` are equally
            frequent. None: ``length``.
        bracketed: share of the demonstrations in round brackets, for format rewards.
        descending: share of the demonstrations in descending order, mostly wrong answers. Above
            1/2, the majority vote of a policy that imitates them is wrong.
        shuffled: share of the demonstrations in random order. A policy that imitates them knows the
            form of an answer but is right only by chance.

    Raises:
        ConfigError: ``shortest`` is above ``length``.

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
        length: Annotated[PositiveInt, Le(18)] = 6,
        held_out: Fraction = 0.1,
        shortest: PositiveInt | None = None,
        bracketed: Probability = 0.0,
        descending: Probability = 0.0,
        shuffled: Probability = 0.0,
    ) -> None:
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
        """Return the number of examples, training and held out; short prompts occur repeatedly."""
        return len(self._lengths) * int(10**self.length)

    def example(self, index: int) -> Example:
        """Return the example whose prompt is the index with leading zeros.

        With ``n > 1`` lengths, ``index % n`` chooses the length, and the prompt is the last digits
        of ``index // n``.
        """
        number, remainder = divmod(index, len(self._lengths))
        length = self._lengths[remainder]
        digits = f"{number % 10**length:0{length}d}"
        answer = "".join(sorted(digits))
        # Hashes other than the hash of the held-out split, so that all shares are independent.
        demonstration = answer[::-1] if is_held_out(f"<{digits}", self.descending) else answer
        if is_held_out(f"<{digits}>", self.shuffled):
            order = permutation(length, index, "shuffled")
            demonstration = "".join(digits[position] for position in order)
        if is_held_out(f"({digits})", self.bracketed):
            demonstration = f"({demonstration})"
        return Example(f"{digits}>", answer, demonstration)
