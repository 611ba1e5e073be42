"""Word-overlap judge (F1)."""

from __future__ import annotations

from collections import Counter

from rlcomp.arguments import Checked


class Overlap(metaclass=Checked):
    """Judge by bag-of-words F1 (as in SQuAD).

    ``F1 = 2 * |P & T| / (|P| + |T|)`` over the word multisets of prediction P and reference T.

    Source:
        Rajpurkar et al. 2016 (SQuAD), arXiv:1606.05250, section 6.1.

    Examples:
        >>> Overlap()("the cat sat", "cat the ran the mat")  # 2 shared of 3 and of 5
        0.5
    """

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the score; None for a reference without words."""
        predicted, true = Counter(prediction.split()), Counter(reference.split())
        if not true:
            return None
        return 2 * (predicted & true).total() / (predicted.total() + true.total())
