"""Synthetic corpus of letter walks: spans follow from the context in a known number of hops."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example

# Even steps return after 13 letters, and a step of 13 after two.
_MOST = len(ascii_uppercase) // 2 - 1


class LetterWalk(metaclass=Checked):
    """Task of documents such as ``"c:DGJMPS"``: a step, and letters at this distance.

    ``x_{i+1} = x_i + step (mod 26)``, with the step in lower case, ``a`` for 1. Each letter follows
    from the one before and the step, so that ``k`` masked letters need ``k`` hops. No letter occurs
    twice in a document, and all are equally frequent at every place. So no letter is a good guess,
    and two roles cannot agree on a fixed letter, as most documents lack it.

    The answer is the document; the demonstration continues after the step.

    Args:
        steps: number of different steps, at most 12; each starts at every letter.
        longest: hops of the longest span, at most 11; the walk has two letters more.
        held_out: share of the documents that only evaluators see.

    Raises:
        ConfigError: ``steps`` is above 12, or ``longest`` above 11: a letter would occur twice.

    Examples:
        >>> LetterWalk().example(55).answer
        'c:DGJMPS'
    """

    def __init__(
        self, *, steps: PositiveInt = 12, longest: PositiveInt = 4, held_out: Fraction = 0.1
    ) -> None:
        for name, value, most in (("steps", steps, _MOST), ("longest", longest, _MOST - 1)):
            if value > most:
                raise ConfigError(
                    f"LetterWalk: {name} is {value}: must be at most {most}, or a letter comes "
                    "twice"
                )
        self.steps = steps
        self.longest = longest
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of documents, training and held out."""
        return self.steps * len(ascii_uppercase)

    def example(self, index: int) -> Example:
        """Return the walk of a letter and a step."""
        step, first = divmod(index, len(ascii_uppercase))
        places = range(first, first + (step + 1) * (self.longest + 2), step + 1)
        walk = "".join(ascii_uppercase[place % len(ascii_uppercase)] for place in places)
        known = f"{ascii_lowercase[step]}:"
        return Example(known, known + walk, walk, source=known + walk)
