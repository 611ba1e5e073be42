"""maj@k: majority vote of k drawn answers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb

from rlcomp.errors import ConfigError

# Coefficients by (answers drawn, classes tied with the right one).
_Counts = dict[tuple[int, int], int]


def maj_at_k(right: int, wrong: Sequence[int], invalid: int, k: int) -> float:
    r"""Compute maj@k: the probability that the majority answer of k drawn answers is right.

    The k are drawn without replacement. If ``t`` wrong answers tie with the right one, the right
    one is chosen with probability ``1 / (t + 1)``. Unreadable answers never win; a vote among
    unreadable answers alone is lost.

    The result is exact. For each number ``j`` of right answers drawn, the ways to draw the others,
    with at most ``j`` of every wrong answer, are the coefficients of a polynomial. A wrong answer
    with fewer than ``j`` copies can neither win nor tie, and counts as unreadable. Sums are in
    whole numbers and rounded once.

    Args:
        right: number of right answers.
        wrong: number of answers in each class of equal wrong answers.
        invalid: number of unreadable answers.
        k: answers drawn.

    Returns:
        In [0, 1]; maj@1 is the share of right answers.

    Raises:
        ConfigError: a count is negative, or not 1 <= k <= the number of answers.

    Source:
        Wang et al. 2022, arXiv:2203.11171 (self-consistency).

    Examples:
        >>> maj_at_k(right=3, wrong=[1, 1], invalid=0, k=3)  # 1 - C(3,1)/C(5,3) * 2/3
        0.8
    """
    n = right + sum(wrong) + invalid
    if min(right, invalid, *wrong, 0) < 0 or not 1 <= k <= n:
        raise ConfigError(
            f"maj@{k} of {right} right, {[*wrong]} wrong and {invalid} invalid answers: counts "
            f"must be at least 0, and k between 1 and their sum, {n}"
        )
    won = Fraction(0)
    for j in range(1, min(right, k) + 1):
        free = invalid + sum(size for size in wrong if size < j)
        others = {(drawn, 0): comb(free, drawn) for drawn in range(min(free, k - j) + 1)}
        for size in wrong:
            others = _with_class(others, size, j, k - j) if size >= j else others
        ways = sum(Fraction(count, ties + 1) for (i, ties), count in others.items() if i == k - j)
        won += comb(right, j) * ways
    return float(won / comb(n, k))


def _with_class(others: _Counts, size: int, j: int, room: int) -> _Counts:
    """Extend the ways to draw by one class of wrong answers, with at most ``j`` of them."""
    ways: _Counts = {}
    for (drawn, ties), count in others.items():
        for i in range(min(size, j, room - drawn) + 1):
            place = (drawn + i, ties + (i == j))
            ways[place] = ways.get(place, 0) + count * comb(size, i)
    return ways
