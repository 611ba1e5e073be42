"""Repetition: the share of n-grams that were there before."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def repetition(items: Sequence[Hashable], size: int) -> float:
    """``1 - distinct / all`` n-grams, in [0, 1): 0 where none is repeated or there is none.

    Args:
        items: tokens or words.
        size: n, at least 1.

    Source:
        Yeo et al. 2025, arXiv:2502.03373, as TRL's ``get_repetition_penalty_reward`` counts it.

    Examples:
        >>> repetition([5, 5, 5, 5, 5], 2), repetition([1, 2], 3)
        (0.75, 0.0)
    """
    grams = [tuple(items[start : start + size]) for start in range(len(items) - size + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
