"""Coverage curves of two policies: paired differences of pass@k over k, and their crossings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from rlcomp.functional.pass_at_k import pass_at_k
from rlcomp.functional.statistics import difference_interval, share_interval


class CoveragePoint(NamedTuple):
    """Mean over problems at one k, with its interval."""

    k: int
    mean: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """Return the sign of the mean: -1, 0 or 1."""
        return (self.mean > 0) - (self.mean < 0)

    @property
    def significant(self) -> bool:
        """Return True if the interval excludes 0, so that the sign is certain."""
        return self.low > 0 or self.high < 0


class Crossing(NamedTuple):
    """Change of sign between two k; ``significant`` if intervals exclude 0 on both sides."""

    before: int
    after: int
    significant: bool


def coverage_curve(
    n: Tensor, c: Tensor, ks: Iterable[int], level: float, seed: int
) -> list[CoveragePoint]:
    """Compute the mean pass@k over problems at each k, with its interval.

    The intervals are from :func:`rlcomp.functional.statistics.share_interval`. ``n`` and ``c``
    ``[P]`` are the numbers of answers and of right answers of each problem; ``level`` is the
    coverage of the intervals, such as 0.95; ``seed`` seeds the bootstrap. A point leaves out the
    problems with fewer than k answers; a k without problems has no point.

    Source: Chen et al. 2021, arXiv:2107.03374, eq. 1; Efron 1979, Annals of Statistics 7(1).
    """
    return [
        CoveragePoint(k, float(rates.mean()), *share_interval(rates, level, _generator(seed)))
        for k in ks
        if len(rates := pass_at_k(n[n >= k], c[n >= k], k))
    ]


def coverage_difference(
    base: tuple[Tensor, Tensor],
    trained: tuple[Tensor, Tensor],
    ks: Iterable[int],
    level: float,
    seed: int,
) -> list[CoveragePoint]:
    """Compute the paired difference of pass@k, trained minus base, on the same problems.

    ``mean over p of pass@k_trained(p) - pass@k_base(p)``. ``base`` and ``trained`` are pairs
    ``(n, c)`` as in :func:`coverage_curve`, problem by problem. The bootstrap draws problems, with
    both values of each, so that the difficulty of a problem cancels. The interval is from
    :func:`rlcomp.functional.statistics.difference_interval`. A point leaves out the problems for
    which either policy has fewer than k answers; a k without problems has no point.

    Source: Efron 1979, Annals of Statistics 7(1), applied to the differences.

    Examples:
        >>> n, ks = torch.tensor([4, 4]), [1, 4]
        >>> base, trained = torch.tensor([1, 1]), torch.tensor([4, 0])
        >>> [point.mean for point in coverage_difference((n, base), (n, trained), ks, 0.95, seed=0)]
        [0.25, -0.5]
    """
    points = []
    for k in ks:
        enough = (base[0] >= k) & (trained[0] >= k)
        if bool(enough.any()):
            before, after = (pass_at_k(n[enough], c[enough], k) for n, c in (base, trained))
            differences = after - before
            interval = difference_interval(differences, level, _generator(seed))
            points.append(CoveragePoint(k, float(differences.mean()), *interval))
    return points


def crossings(differences: Sequence[CoveragePoint]) -> list[Crossing]:
    """Find the sign changes of ``differences``, which ascend in k; a difference of 0 is skipped.

    A crossing is significant if, on both sides, the interval of some k excludes 0 within the run of
    equal signs next to it.

    Source: Yue et al. 2025, arXiv:2504.13837: at large k a base model has a higher pass@k than its
    RL policy.

    Examples:
        >>> crossings([CoveragePoint(1, 0.3, 0.1, 0.5), CoveragePoint(4, -0.1, -0.2, 0.1)])
        [Crossing(before=1, after=4, significant=False)]
    """
    signed = [point for point in differences if point.sign]
    sides = [list(side) for _, side in groupby(signed, key=lambda point: point.sign)]
    return [
        Crossing(
            left[-1].k,
            right[0].k,
            all(any(point.significant for point in side) for side in (left, right)),
        )
        for left, right in pairwise(sides)
    ]


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
