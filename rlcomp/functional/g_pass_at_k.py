"""G-Pass@k: probability that at least a share of k answers is right."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, comb

import torch
from torch import Tensor

from rlcomp.errors import ConfigError
from rlcomp.functional.pass_at_k import check_counts


def g_pass_at_k(n: Tensor, c: Tensor, k: int, threshold: float | Fraction) -> Tensor:
    r"""Compute G-Pass@k: the probability that at least a share of k drawn answers is right.

    ``sum over j from max(ceil(threshold * k), 1) to k of C(c, j) C(n - c, k - j) / C(n, k)``.
    Answers are drawn without replacement. The sum is exact and rounded once; the product uses the
    threshold's decimal number: ``0.7 * 10`` is 7.

    Args:
        n: answers per problem, int64, shape ``[P]``.
        c: right answers per problem, int64, shape ``[P]``.
        k: answers drawn.
        threshold: the share, in [0, 1]; at 0 this is pass@k, at 1 all k are right.

    Returns:
        Shape ``[P]``, float64, in [0, 1].

    Raises:
        ConfigError: as :func:`rlcomp.functional.pass_at_k.pass_at_k`, or the threshold is out of
            its range.

    Source:
        Liu et al. 2024, arXiv:2412.13147, eq. 3.

    Examples:
        >>> g_pass_at_k(torch.tensor([4, 4]), torch.tensor([2, 3]), 2, 1.0)
        tensor([0.1667, 0.5000], dtype=torch.float64)
    """
    if not 0 <= threshold <= 1:
        raise ConfigError(f"threshold is {threshold}: must be at least 0 and at most 1")
    pairs = check_counts(n, c, k)
    share = Fraction(repr(threshold)) if isinstance(threshold, float) else Fraction(threshold)
    least = max(ceil(share * k), 1)
    known = {pair: float(_at_least(*pair, k, least)) for pair in set(pairs)}
    return torch.tensor([known[pair] for pair in pairs], dtype=torch.float64)


def mean_g_pass_at_k(n: Tensor, c: Tensor, k: int) -> Tensor:
    """Compute mG-Pass@k: twice the area under G-Pass@k over thresholds from one half to one.

    ``2 / k * sum over i from ceil(k / 2) + 1 to k of G-Pass@k at threshold i / k``.

    Args:
        n: answers per problem, int64, shape ``[P]``.
        c: right answers per problem, int64, shape ``[P]``.
        k: answers drawn, at least 2.

    Returns:
        Shape ``[P]``, float64, in [0, 1].

    Raises:
        ConfigError: as :func:`rlcomp.functional.pass_at_k.pass_at_k`, or k is 1.

    Source:
        Liu et al. 2024, arXiv:2412.13147, eq. 5.

    Examples:
        >>> mean_g_pass_at_k(torch.tensor([4]), torch.tensor([3]), 2)
        tensor([0.5000], dtype=torch.float64)
    """
    if k < 2:
        raise ConfigError(f"mG-Pass@{k} needs k >= 2: the sum has no terms")
    pairs = check_counts(n, c, k)
    counts = range((k + 1) // 2 + 1, k + 1)
    known = {
        pair: float(Fraction(2, k) * sum(_at_least(*pair, k, least) for least in counts))
        for pair in set(pairs)
    }
    return torch.tensor([known[pair] for pair in pairs], dtype=torch.float64)


def _at_least(answers: int, right: int, k: int, least: int) -> Fraction:
    """Compute the probability of at least ``least`` right ones: the hypergeometric's upper tail."""
    hits = sum(comb(right, j) * comb(answers - right, k - j) for j in range(least, k + 1))
    return Fraction(hits, comb(answers, k))
