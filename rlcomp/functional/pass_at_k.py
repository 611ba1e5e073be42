"""Estimators of pass@k, G-Pass@k and maj@k, and intervals of means.

``n`` and ``c`` are the numbers of answers and of right answers of each problem, int64, ``[P]``;
``k`` answers are drawn without replacement. Results of functions of ``n`` and ``c`` are ``[P]``,
float64. Probabilities are computed in whole numbers and rounded once: exact to the last bit of a
float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, comb, sqrt
from statistics import NormalDist

import torch
from torch import Tensor

from rlcomp.errors import ConfigError

# Values in a block of resamples: indices (int64) and values (float64) take 8 MB each.
_VALUES_PER_DRAW = 2**20


def pass_at_k(n: Tensor, c: Tensor, k: int) -> Tensor:
    """Compute pass@k: the probability that k of n responses contain a correct one.

    ``1 - C(n-c, k) / C(n, k)`` for each problem. ConfigError as in :func:`check_counts`.

    Source: Chen et al. 2021, arXiv:2107.03374, eq. 1.

    Examples:
        >>> pass_at_k(torch.tensor([10, 10]), torch.tensor([3, 0]), 2)
        tensor([0.5333, 0.0000], dtype=torch.float64)
    """
    pairs = check_counts(n, c, k)
    rates = {pair: _exact(*pair, k) for pair in set(pairs)}
    return torch.tensor([rates[pair] for pair in pairs], dtype=torch.float64)


def check_counts(n: Tensor, c: Tensor, k: int) -> list[tuple[int, int]]:
    """Return ``(n, c)`` of every problem; ConfigError unless 1 <= k <= n and 0 <= c <= n."""
    pairs = list(zip(n.tolist(), c.tolist(), strict=True))
    for answers, right in pairs:
        if not 1 <= k <= answers:
            raise ConfigError(
                f"pass@{k} needs 1 <= k <= n, but a problem has n = {answers} answers; sample at "
                "least k answers per problem or lower k"
            )
        if not 0 <= right <= answers:
            raise ConfigError(
                f"{right} right answers of {answers}: must be between 0 and {answers}"
            )
    return pairs


def _exact(answers: int, right: int, k: int) -> float:
    draws = comb(answers, k)
    return (draws - comb(answers - right, k)) / draws


def bootstrap_interval(
    values: Tensor, level: float, generator: torch.Generator, resamples: int = 2000
) -> tuple[float, float]:
    """Compute the percentile-bootstrap confidence interval of the mean over problems.

    Return the ``(1 - level) / 2`` and ``(1 + level) / 2`` quantiles of the means of ``resamples``
    draws of P of the ``values`` ``[P]``, with replacement. ``level`` is the coverage, such as 0.95;
    the generator is on the CPU. ConfigError without values, or for a level outside (0, 1).

    Source: Efron 1979, "Bootstrap methods: another look at the jackknife", Annals of Statistics
    7(1).
    """
    _check_level(level)
    size = len(values)
    if size == 0:
        raise ConfigError("bootstrap_interval needs the value of at least one problem")
    values = values.detach().cpu().double()
    rows = max(1, _VALUES_PER_DRAW // size)
    sizes = [min(rows, resamples - first) for first in range(0, resamples, rows)]
    samples = (torch.randint(size, (count, size), generator=generator) for count in sizes)
    means = torch.cat([values[problems].mean(1) for problems in samples])
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    low, high = torch.quantile(means, tails).tolist()
    return low, high


def wilson_interval(successes: float, trials: int, level: float) -> tuple[float, float]:
    """Compute Wilson's confidence interval of a binomial success rate; successes may be fractional.

    ``(p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)``, within [0, 1], with
    ``p = successes / n``, ``n`` trials and ``z`` the normal quantile at ``(1 + level) / 2``.
    ConfigError if counts or level are out of range.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference",
    Journal of the American Statistical Association 22(158).
    """
    _check_level(level)
    if not 0 <= successes <= trials or trials < 1:
        raise ConfigError(f"{successes} successes in {trials} trials: must be 0 <= s <= n, n >= 1")
    z = NormalDist().inv_cdf((1 + level) / 2)
    rate = successes / trials
    centre = rate + z * z / (2 * trials)
    half = z * sqrt(rate * (1 - rate) / trials + (z / (2 * trials)) ** 2)
    scale = 1 + z * z / trials
    return max((centre - half) / scale, 0.0), min((centre + half) / scale, 1.0)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"level is {level}: must be between 0 and 1, such as 0.95")


def g_pass_at_k(n: Tensor, c: Tensor, k: int, threshold: float | Fraction) -> Tensor:
    r"""Compute G-Pass@k: the probability that at least a share of k drawn answers is right.

    ``sum over j from max(ceil(threshold * k), 1) to k of C(c, j) C(n - c, k - j) / C(n, k)``. The
    product uses the threshold's decimal number: ``0.7 * 10`` is 7. At 0 this is pass@k, at 1 all k
    are right. ConfigError as in :func:`check_counts`, or if the threshold is outside [0, 1].

    Source: Liu et al. 2024, arXiv:2412.13147, eq. 3.

    Examples:
        >>> g_pass_at_k(torch.tensor([4, 4]), torch.tensor([2, 3]), 2, 1.0)
        tensor([0.1667, 0.5000], dtype=torch.float64)
    """
    if not 0 <= threshold <= 1:
        raise ConfigError(f"threshold is {threshold}: must be at least 0 and at most 1")
    pairs = check_counts(n, c, k)
    share = Fraction(repr(threshold)) if isinstance(threshold, float) else Fraction(threshold)
    least = max(ceil(share * k), 1)
    rates = {pair: float(_at_least(*pair, k, least)) for pair in set(pairs)}
    return torch.tensor([rates[pair] for pair in pairs], dtype=torch.float64)


def mean_g_pass_at_k(n: Tensor, c: Tensor, k: int) -> Tensor:
    """Compute mG-Pass@k: twice the area under G-Pass@k over thresholds from one half to one.

    ``2 / k * sum over i from ceil(k / 2) + 1 to k of G-Pass@k at threshold i / k``. ConfigError as
    in :func:`check_counts`, or if k is 1.

    Source: Liu et al. 2024, arXiv:2412.13147, eq. 5.

    Examples:
        >>> mean_g_pass_at_k(torch.tensor([4]), torch.tensor([3]), 2)
        tensor([0.5000], dtype=torch.float64)
    """
    if k < 2:
        raise ConfigError(f"mG-Pass@{k} needs k >= 2: the sum has no terms")
    pairs = check_counts(n, c, k)
    counts = range((k + 1) // 2 + 1, k + 1)
    rates = {
        pair: float(Fraction(2, k) * sum(_at_least(*pair, k, least) for least in counts))
        for pair in set(pairs)
    }
    return torch.tensor([rates[pair] for pair in pairs], dtype=torch.float64)


def _at_least(answers: int, right: int, k: int, least: int) -> Fraction:
    """Compute the probability of at least ``least`` right ones: the hypergeometric's upper tail."""
    hits = sum(comb(right, j) * comb(answers - right, k - j) for j in range(least, k + 1))
    return Fraction(hits, comb(answers, k))


# Coefficients by (answers drawn, classes tied with the right one).
_Counts = dict[tuple[int, int], int]


def maj_at_k(right: int, wrong: Sequence[int], invalid: int, k: int) -> float:
    r"""Compute maj@k: the probability that the majority answer of k drawn answers is right.

    ``right`` and ``invalid`` are numbers of answers to one problem. ``wrong`` are the sizes of the
    classes of equal wrong answers. If ``t`` wrong answers tie with the right one, the right one is
    chosen with probability ``1 / (t + 1)``. Unreadable (``invalid``) answers never win; a vote
    among unreadable answers alone is lost.

    For each number ``j`` of right answers drawn, the ways to draw the others, with at most ``j`` of
    every wrong answer, are the coefficients of a polynomial. A wrong answer with fewer than ``j``
    copies can neither win nor tie, and counts as unreadable.

    ConfigError if a count is negative, or not 1 <= k <= the number of answers.

    Source: Wang et al. 2022, arXiv:2203.11171 (self-consistency).

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
    """Extend the ways to draw by one class of ``size`` wrong answers, with at most ``j`` of them.

    No way draws more than ``room`` answers.
    """
    ways: _Counts = {}
    for (drawn, ties), count in others.items():
        for i in range(min(size, j, room - drawn) + 1):
            key = (drawn + i, ties + (i == j))
            ways[key] = ways.get(key, 0) + count * comb(size, i)
    return ways
