"""pass@k, and confidence intervals of means over problems."""

from __future__ import annotations

from math import comb, sqrt
from statistics import NormalDist

import torch
from torch import Tensor

from rlcomp.errors import ConfigError

# Values in one draw of the bootstrap: a few calls of 16 MB.
_DRAWN = 2**20


def pass_at_k(n: Tensor, c: Tensor, k: int) -> Tensor:
    """Compute pass@k: the probability that k of n responses contain a correct one.

    ``1 - C(n-c, k) / C(n, k)`` for each problem, drawn without replacement, in whole numbers and
    rounded once: exact to the last bit of a float64.

    Args:
        n: answers per problem, int64, shape ``[P]``.
        c: right answers per problem, int64, shape ``[P]``.
        k: answers drawn.

    Returns:
        Shape ``[P]``, float64, in [0, 1].

    Raises:
        ConfigError: not 1 <= k <= n for every problem, or not 0 <= c <= n.

    Source:
        Chen et al. 2021, arXiv:2107.03374, eq. 1.

    Examples:
        >>> pass_at_k(torch.tensor([10, 10]), torch.tensor([3, 0]), 2)
        tensor([0.5333, 0.0000], dtype=torch.float64)
    """
    pairs = check_counts(n, c, k)
    known = {pair: _exact(*pair, k) for pair in set(pairs)}
    return torch.tensor([known[pair] for pair in pairs], dtype=torch.float64)


def check_counts(n: Tensor, c: Tensor, k: int) -> list[tuple[int, int]]:
    """Return the numbers of answers and right ones of every problem, checked for k draws.

    Raises:
        ConfigError: not 1 <= k <= n for every problem, or not 0 <= c <= n.
    """
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

    Args:
        values: one number per problem, shape ``[P]``, any unit.
        level: coverage, in (0, 1), such as 0.95.
        generator: draws the problems; on the CPU.
        resamples: number of means drawn.

    Returns:
        Lower and upper bound, in the unit of the values.

    Raises:
        ConfigError: no values, or a level outside (0, 1).

    Source:
        Efron 1979, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7(1).
    """
    _check_level(level)
    size = len(values)
    if size == 0:
        raise ConfigError("bootstrap_interval needs the value of at least one problem")
    values = values.detach().cpu().double()
    rows = max(1, _DRAWN // size)
    sizes = [min(rows, resamples - first) for first in range(0, resamples, rows)]
    drawn = (torch.randint(size, (some, size), generator=generator) for some in sizes)
    means = torch.cat([values[problems].mean(1) for problems in drawn])
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    low, high = torch.quantile(means, tails).tolist()
    return low, high


def wilson_interval(successes: float, trials: int, level: float) -> tuple[float, float]:
    """Compute Wilson's confidence interval of a binomial success rate.

    Args:
        successes: between 0 and ``trials``; may be fractional.
        trials: at least 1.
        level: coverage, in (0, 1), such as 0.95.

    Returns:
        Lower and upper bound, in [0, 1].

    Raises:
        ConfigError: counts or level are out of range.

    Source:
        Wilson 1927, "Probable inference, the law of succession, and statistical inference",
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
