"""Pareto fronts and quality indicators (maximisation). Never imports torch.

``points`` are ``[n, K]``, at least one, in the units of the objectives; a reference front is
``[m, K]``, a reference point ``[K]``. ShapeError for another shape, NumericalError if a coordinate
is not finite, MissingExtra where moocore is needed and not installed.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import numpy.typing as npt

from rlcomp.errors import NumericalError, ShapeError, require

Array = npt.NDArray[np.float64]


def nondominated(points: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return the mask ``[n]`` of the non-dominated points (Pareto front).

    A point dominates another if it is at least as good in every objective and better in one. Equal
    points do not dominate each other: all of them are in the mask.

    Source: Deb et al. 2002, "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE
    TEC 6.

    Examples:
        >>> nondominated([[3, 1], [2, 2], [1, 3], [1, 1], [2, 2]])
        array([ True,  True,  True, False,  True])
    """
    array = _checked("points", points)
    no_worse = (array[:, None] >= array[None]).all(2)
    better = (array[:, None] > array[None]).any(2)
    dominated: npt.NDArray[np.bool_] = np.any(no_worse & better, axis=0)
    return ~dominated


def hypervolume(points: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Compute the hypervolume between the points and a reference point, by moocore.

    A point adds volume only if it is above the reference in every objective.

    Source: Zitzler & Thiele 1999, "Multiobjective evolutionary algorithms: a comparative case study
    and the strength Pareto approach", IEEE TEC 3.

    Examples:
        >>> hypervolume([[3, 1], [2, 2], [1, 3], [1, 1]], [0, 0])
        6.0
    """
    array = _checked("points", points)
    corner = _checked("the reference point", np.asarray(reference, dtype=np.float64)[None])
    _same_width(array, corner, "the reference point")
    return float(_moocore().hypervolume(array, ref=corner[0], maximise=True))


def igd_plus(points: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Compute IGD+: the one-sided mean distance from a reference front to the points, by moocore.

    ``(1 / m) sum_b min_a sqrt(sum_i max(b_i - a_i, 0)^2)``; ``b`` is in the reference front, ``a``
    in the points. An objective counts only where the point falls short of the reference. 0 where
    the points reach all of the reference; smaller is better.

    Source: Ishibuchi et al. 2015, "Modified distance calculation in generational distance and
    inverted generational distance", EMO 2015.

    Examples:
        >>> igd_plus([[1, 2]], [[4, 6], [1, 0]])  # (5 + 0) / 2
        2.5
    """
    array, aim = _pair(points, reference)
    return float(_moocore().igd_plus(array, ref=aim, maximise=True))


def additive_epsilon(points: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Compute the additive epsilon indicator, ``max_b min_a max_i (b_i - a_i)``, by moocore.

    ``b`` is in the reference front, ``a`` in the points. Smaller is better; at most 0 where the
    points cover all of the reference.

    Source: Zitzler et al. 2003, "Performance assessment of multiobjective optimizers: an analysis
    and review", IEEE TEC 7.

    Examples:
        >>> additive_epsilon([[3, 1], [2, 2], [1, 3]], [[3, 3]])
        1.0
    """
    array, aim = _pair(points, reference)
    return float(_moocore().epsilon_additive(array, ref=aim, maximise=True))


def extent(points: npt.ArrayLike) -> float:
    """Compute the diagonal of the bounding box of the points' front; 0 for a single point.

    Source: Zitzler, Deb & Thiele 2000, "Comparison of multiobjective evolutionary algorithms:
    empirical results", Evolutionary Computation 8 (M3, with Euclid's norm).

    Examples:
        >>> extent([[4, 0], [1, 4], [0, 0]])
        5.0
    """
    array = _checked("points", points)
    return float(np.linalg.norm(np.ptp(array[nondominated(array)], axis=0)))


def _pair(points: npt.ArrayLike, reference: npt.ArrayLike) -> tuple[Array, Array]:
    array, aim = _checked("points", points), _checked("the reference front", reference)
    _same_width(array, aim, "the reference front")
    return array, aim


def _checked(name: str, points: npt.ArrayLike) -> Array:
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2 or not array.size:
        raise ShapeError(
            f"{name}: the shape is {list(array.shape)}: give at least one point and one objective, "
            "[n, K]"
        )
    if not np.isfinite(array).all():
        raise NumericalError(f"{name}: a coordinate is not finite: leave such points out")
    return array


def _same_width(points: Array, other: Array, name: str) -> None:
    if points.shape[1] != other.shape[1]:
        raise ShapeError(
            f"the points have {points.shape[1]} objectives, {name} has {other.shape[1]}: give one "
            "number for each objective"
        )


def _moocore() -> ModuleType:
    return require("moocore", "pareto")
