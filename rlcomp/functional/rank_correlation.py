"""Spearman's rank correlation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rlcomp.errors import NumericalError, ShapeError

Array = npt.NDArray[np.float64]


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Compute Spearman's rank correlation, with mean ranks for ties.

    Args:
        first: shape ``[n]``, finite.
        second: shape ``[n]``, finite.

    Returns:
        In [-1, 1], dimensionless; 1 if one always rises with the other; 0 if one of them is
        constant.

    Raises:
        ShapeError: the two are not vectors of one length.
        NumericalError: a number is not finite.

    Source:
        Spearman 1904, "The proof and measurement of association between two things".

    Examples:
        >>> rank_correlation([0, 0.5, 1], [0.1, 0.2, 9.0])
        1.0
    """
    values = [np.asarray(one, dtype=np.float64) for one in (first, second)]
    if values[0].ndim != 1 or values[0].shape != values[1].shape:
        raise ShapeError(
            f"rank_correlation: the shapes are {list(values[0].shape)} and "
            f"{list(values[1].shape)}: give two vectors of one length"
        )
    if not np.isfinite(values).all():
        raise NumericalError("rank_correlation: a number is not finite: leave such pairs out")
    one, other = (_centred_ranks(vector) for vector in values)
    size = np.sqrt((one @ one) * (other @ other))
    return float(np.clip(one @ other / size, -1, 1)) if size > 0 else 0.0


def _centred_ranks(values: Array) -> Array:
    above: Array = np.sign(values[:, None] - values).sum(1)
    return above / 2
