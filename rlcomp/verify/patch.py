"""Patch similarity: how like a patch is to the true one (SWE-RL)."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher

# Of equal characters, each of one text with each of the other.
_MOST_PAIRS = 2_000_000


def patch_similarity(patch: str | None, truth: str) -> float:
    """Similarity of a patch and the true one.

    ``R = 2 M / T`` in [0, 1], ``M`` the characters in matching blocks, ``T`` those of both
    (Ratcliff and Obershelp); -1 where there is no patch, so that a wrong form costs more than a
    wrong patch.

    White space at the ends of lines does not count. Long texts are compared line by line, because
    time grows with the square: where more than 2 million pairs of characters are equal.

    Args:
        patch: the unified diff of a response, or its new text; None: it gave none.
        truth: the same of the true change.

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
        return SequenceMatcher(None, one, other, autojunk=False).ratio()
    return SequenceMatcher(None, text, true_text, autojunk=False).ratio()


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]
