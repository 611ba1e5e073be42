"""Confidence intervals of means over problems, with a width even if all problems are alike."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.functional.pass_at_k import bootstrap_interval, wilson_interval

# Values closer than this are equal, since 2/3 - 1/3 is 1/3 only up to rounding.
_EQUAL = 1e-12


def share_interval(values: Tensor, level: float, generator: torch.Generator) -> tuple[float, float]:
    """Compute the interval of the mean over problems of shares in [0, 1].

    Wilson's interval if every value is 0 or 1, otherwise the bootstrap's. If all values are equal,
    a bootstrap has no width, at any number of problems. The interval then bounds the share of other
    values that ``n`` problems can miss: the value plus or minus Wilson's upper end for 0 of ``n``,
    within [0, 1].

    Args:
        values: shape ``[P]``, at least one.
        level: coverage, in (0, 1), such as 0.95.
        generator: draws the problems; on the CPU.

    Source:
        Efron 1979, Annals of Statistics 7(1); Wilson 1927, Journal of the American Statistical
        Association 22(158).

    Examples:
        >>> low, high = share_interval(torch.full((4,), 0.5), 0.95, torch.Generator())
        >>> round(low, 3), round(high, 3)
        (0.01, 0.99)
    """
    if bool(((values == 0) | (values == 1)).all()) and len(values):
        return wilson_interval(int(values.sum()), len(values), level)
    return _interval(values, (0.0, 1.0), level, generator)


def difference_interval(
    values: Tensor, level: float, generator: torch.Generator
) -> tuple[float, float]:
    """Compute the interval of the mean over problems of paired differences of shares, in [-1, 1].

    The bootstrap's interval; for equal values as in :func:`share_interval`.

    Args:
        values: shape ``[P]``, at least one.
        level: coverage, in (0, 1), such as 0.95.
        generator: draws the problems; on the CPU.

    Source:
        As in :func:`share_interval`.

    Examples:
        >>> low, high = difference_interval(torch.zeros(4), 0.95, torch.Generator())
        >>> round(low, 3), round(high, 3)
        (-0.49, 0.49)
    """
    return _interval(values, (-1.0, 1.0), level, generator)


def _interval(
    values: Tensor, bounds: tuple[float, float], level: float, generator: torch.Generator
) -> tuple[float, float]:
    if not len(values) or float(values.max() - values.min()) > _EQUAL:
        return bootstrap_interval(values, level, generator)
    _, width = wilson_interval(0, len(values), level)
    value = float(values[0])
    return max(value - width, bounds[0]), min(value + width, bounds[1])
