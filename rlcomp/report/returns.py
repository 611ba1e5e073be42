"""Recorded returns of several objectives of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlcomp.report.statistics import Array

# Metrics are ``evaluation/return/OBJECTIVE``, with ``@PREFERENCE`` for a conditioned policy.
_PREFIX = "evaluation/return/"
Rows = Sequence[Mapping[str, Any]]


def objectives_of(rows: Rows) -> tuple[str, ...]:
    """Return the objectives with recorded returns, in their order.

    Examples:
        >>> objectives_of([{"evaluation/return/a": 1.0, "evaluation/return/a_low": 0.5}])
        ('a',)
    """
    names = dict.fromkeys(
        key.removeprefix(_PREFIX) for row in rows for key in row if key.startswith(_PREFIX)
    )
    interval_bounds = {f"{name}{end}" for name in names for end in ("_low", "_high")}
    return tuple(name for name in names if "@" not in name and name not in interval_bounds)


def evaluation_path(rows: Rows, names: Sequence[str]) -> tuple[Array, Array]:
    """Return the evaluations of a run in which every objective's return is finite.

    Returns:
        Steps, shape ``[n]``, and the returns at these steps, shape ``[n, K]``.
    """
    points = [(row["total"], *point) for row in rows if (point := _point(row, names)) is not None]
    table = np.asarray(points, dtype=np.float64).reshape(-1, 1 + len(names))
    return table[:, 0], table[:, 1:]


def returns_by_preference(rows: Rows, names: Sequence[str]) -> dict[str, Array]:
    """Return the last evaluation of a conditioned policy, ``[K]`` by preference; else empty.

    Preferences without a finite return of every objective are left out.

    Examples:
        >>> row = {"evaluation/return/a@0:1": 0.5, "evaluation/return/b@0:1": 2.0}
        >>> returns_by_preference([row], "ab")
        {'0:1': array([0.5, 2. ])}
    """
    for row in reversed(rows):
        labels = dict.fromkeys(
            key.rpartition("@")[2] for key in row if key.startswith(_PREFIX) and "@" in key
        )
        points = {label: _point(row, names, f"@{label}") for label in labels}
        if points:
            return {label: point for label, point in points.items() if point is not None}
    return {}


def _point(row: Mapping[str, Any], names: Sequence[str], label: str = "") -> Array | None:
    values = [row.get(f"{_PREFIX}{name}{label}") for name in names]
    if any(value is None or not math.isfinite(value) for value in values):
        return None
    return np.asarray(values, dtype=np.float64)


def final_returns(rows: Rows, names: Sequence[str]) -> dict[str, Array]:
    """Return the last returns of a run by preference; without one, the last point under ``""``."""
    _, points = evaluation_path(rows, names)
    return returns_by_preference(rows, names) or ({"": points[-1]} if len(points) else {})
