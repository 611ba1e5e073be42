"""Similarity of a patch and the true one (SWE-RL)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate

# Most pairs of equal characters, one from each text.
_MOST_PAIRS = 2_000_000
# Most visits of pairs. Unlike texts visit each pair about eight times; adversarial texts visit it
# once for each matching block.
_MOST_LOOKS = 10 * _MOST_PAIRS


def patch_similarity(patch: str | None, truth: str) -> float:
    """Compute the similarity of a patch and the true one.

    ``R = 2 M / T`` in [0, 1], ``M`` the characters in matching blocks, ``T`` those of both
    (Ratcliff and Obershelp); -1 if there is no patch, so that a wrong form costs more than a
    wrong patch.

    White space at the ends of lines does not count. The time grows with the square of the length:
    texts with more than 2 million pairs of equal characters are compared line by line. After 20
    million visits of pairs the rest of the texts counts as unlike.

    Args:
        patch: the unified diff of a response, or its new text; None: it gave none.
        truth: the diff or text of the true change.

    Source:
        Wei et al. 2025 (SWE-RL), arXiv:2502.18449, eq. 1.

    Examples:
        >>> patch_similarity("ab", "abcd"), patch_similarity(None, "abcd")
        (0.6666666666666666, -1.0)
    """
    if patch is None or not patch.strip():
        return -1.0
    one, other = _lines(patch), _lines(truth)
    text, true_text = "\n".join(one), "\n".join(other)
    counts = Counter(true_text)
    if sum(counts[character] for character in text) > _MOST_PAIRS:
        return _Bounded(one, other).ratio()
    return _Bounded(text, true_text).ratio()


class _Bounded(SequenceMatcher[str]):
    """Matching blocks in bounded time; without a bound it grows with the cube of the length."""

    def __init__(self, one: Sequence[str], other: Sequence[str]) -> None:
        super().__init__(None, one, other, autojunk=False)
        counts = Counter(other)
        self.looks_before = [0, *accumulate(counts[each] for each in one)]
        self.looks = 0

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """Return the longest block in a part of both texts; an empty one beyond the bound."""
        end = -1 if ahi is None else ahi
        self.looks += self.looks_before[end] - self.looks_before[alo]
        if self.looks > _MOST_LOOKS:
            return Match(alo, blo, 0)
        return super().find_longest_match(alo, ahi, blo, bhi)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]
