"""Repetition: the share of repeated n-grams."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def repetition(items: Sequence[Hashable], size: int) -> float:
    """Compute ``1 - distinct / all`` n-grams, in [0, 1); 0 without n-grams or repeated ones.

    Args:
        items: tokens or words.
        size: n, at least 1.

    Source:
        Yeo et al. 2025, arXiv:2502.03373, counted as in TRL's ``get_repetition_penalty_reward``.

    Examples:
        >>> repetition([5, 5, 5, 5, 5], 2), repetition([1, 2], 3)
        (0.75, 0.0)
    """
    grams = [tuple(items[start : start + size]) for start in range(len(items) - size + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
