"""Confidence intervals of means over problems that keep a width where all problems are alike."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.functional.pass_at_k import bootstrap_interval, wilson_interval

# Values that differ by less are equal: 2/3 - 1/3 is 1/3 but for a rounding.
_EQUAL = 1e-12


def share_interval(values: Tensor, level: float, generator: torch.Generator) -> tuple[float, float]:
    """Interval of the mean over problems of shares in [0, 1].

    Wilson's where each is 0 or 1, else the bootstrap's. Where all are equal a bootstrap has no
    width, however few they are; then the interval says how rare another value must be not to be
    seen in ``n`` problems: the value plus or minus Wilson's upper end of 0 in ``n``, within [0, 1].

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
    """Interval of the mean over problems of paired differences of shares, in [-1, 1].

    The bootstrap's; where all are equal as in :func:`share_interval`.

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
