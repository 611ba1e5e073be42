"""Synthetic corpus of letter walks, whose letters follow from the context in known hops."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import Annotated

from annotated_types import Le

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.interfaces.task import Example


class LetterWalk(metaclass=Checked):
    """Task of documents such as ``"c:DGJMPS"``: a step, and letters at this distance.

    ``x_{i+1} = x_i + step (mod 26)``, where ``x_i`` is the number of the ``i``-th letter. The step
    is written in lower case, with ``a`` for 1. Each letter follows from the step and the previous
    letter, so that ``k`` masked letters need ``k`` hops. No letter occurs twice in a document, and
    every letter is equally frequent at every position. So no letter is a good guess. In
    the mask game generator and predictor cannot agree on a fixed letter either: most documents lack
    it.

    The answer is the document. The demonstration is the document without the step.

    Args:
        steps: number of different steps, at most 12. Each step has a document for every first
            letter.
        longest: number of hops of the longest span, at most 11. The walk has ``longest + 2``
            letters.
        held_out: share of the documents that only evaluators see.

    Examples:
        >>> LetterWalk().example(55).answer
        'c:DGJMPS'
    """

    def __init__(
        self,
        *,
        steps: Annotated[PositiveInt, Le(12)] = 12,
        longest: Annotated[PositiveInt, Le(11)] = 4,
        held_out: Fraction = 0.1,
    ) -> None:
        self.steps = steps
        self.longest = longest
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of documents, training and held out."""
        return self.steps * len(ascii_uppercase)

    def example(self, index: int) -> Example:
        """Return the walk with step ``1 + index // 26`` from letter ``index % 26``."""
        quotient, first = divmod(index, len(ascii_uppercase))
        # With a step of 13 the third letter would equal the first. The 14th letter of a walk with
        # an even step would, too.
        step = 1 + quotient
        numbers = range(first, first + step * (self.longest + 2), step)
        walk = "".join(ascii_uppercase[number % len(ascii_uppercase)] for number in numbers)
        prompt = f"{ascii_lowercase[quotient]}:"
        return Example(prompt, prompt + walk, walk, source=prompt + walk)
