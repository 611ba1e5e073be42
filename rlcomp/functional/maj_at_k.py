"""maj@k: the answer that most of k drawn ones give."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb

from rlcomp.errors import ConfigError

# Coefficients by (answers drawn, classes tied with the right one).
_Counts = dict[tuple[int, int], int]


def maj_at_k(right: int, wrong: Sequence[int], invalid: int, k: int) -> float:
    r"""maj@k: probability that the answer most often given by k drawn answers is right.

    The k are drawn without replacement. Where ``t`` wrong answers are given as often as the right
    one, it is chosen with probability ``1 / (t + 1)``; answers that cannot be read never win, and
    where nothing else is drawn the vote is lost. Exact: for each number ``j`` of right ones drawn,
    the ways to draw the others, every wrong one at most ``j`` times, are the coefficients of a
    polynomial. A wrong answer that is there fewer than ``j`` times can neither win nor tie, and
    counts as one that cannot be read. In whole numbers, rounded once.

    Args:
        right: answers in the class that is right.
        wrong: answers in each other class of equal answers.
        invalid: answers that cannot be read.
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
    """Ways to draw, with one more class of wrong answers, at most ``j`` of them."""
    found: _Counts = {}
    for (drawn, ties), count in others.items():
        for i in range(min(size, j, room - drawn) + 1):
            place = (drawn + i, ties + (i == j))
            found[place] = found.get(place, 0) + count * comb(size, i)
    return found
