"""Shared words."""

from __future__ import annotations

from collections import Counter

from rlcomp.arguments import Checked


class Overlap(metaclass=Checked):
    """F1 of the words, each counted as often as it occurs, in whatever order.

    ``2 * shared / (words of one + words of the other)``: the harmonic mean of precision and recall.

    Source:
        Rajpurkar et al. 2016 (SQuAD), arXiv:1606.05250, section 6.1.

    Examples:
        >>> Overlap()("the cat sat", "cat the ran the mat")  # 2 shared of 3 and of 5
        0.5
    """

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Compare; a reference without words says nothing."""
        said, true = Counter(prediction.split()), Counter(reference.split())
        if not true:
            return None
        return 2 * (said & true).total() / (said.total() + true.total())
