"""Judge that compares texts as word prefixes of each other."""

from __future__ import annotations

from rlcomp.arguments import Checked, PositiveInt


class WordPrefix(metaclass=Checked):
    """Prefix judge: 1 if one text is a word prefix of the other, else 0.

    The end of a segment is arbitrary, so a shorter or longer prediction is not penalised. The
    common prefix must have at least ``least`` words, or all of a shorter reference.

    Args:
        least: least number of common words.

    Source:
        Prefix agreement as a reward for the next segment: Li et al. 2025 (RLPT), arXiv:2509.19249,
        where a language model judges (``judge=generative``).

    Examples:
        >>> judge = WordPrefix(least=2)
        >>> judge("the cat", "the cat sat"), judge("the cat sat down", "the cat sat")
        (1.0, 1.0)
        >>> judge("the", "the cat sat"), judge("the ca", "the cat sat")
        (0.0, 0.0)
    """

    def __init__(self, *, least: PositiveInt = 3) -> None:
        self.least = least

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the score; None for a reference without words."""
        predicted, true = prediction.split(), reference.split()
        if not true:
            return None
        shared = min(len(predicted), len(true))
        enough = shared >= min(self.least, len(true))
        return float(enough and predicted[:shared] == true[:shared])
