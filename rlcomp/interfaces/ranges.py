"""Ranges of parameters, given by name or derived from their nominal values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rlcomp.errors import ConfigError, nearest

Range = tuple[float, float]


def named_ranges(
    nominal: Mapping[str, float],
    given: Mapping[str, Sequence[float]],
    around: Callable[[float], Range],
    least: float,
) -> dict[str, Range]:
    """Return the given ranges; if there are none, one around every nominal value.

    A range of a single value is dropped, since the parameter does not change.

    Args:
        nominal: every parameter of the environment.
        given: ``[low, high]`` by parameter; empty for all of them.
        around: returns the range around a nominal value.
        least: every low end must be above this.

    Raises:
        ConfigError: a parameter is unknown, or a range is not ``[low, high]``.
    """
    for name, bounds in given.items():
        where = f"environment.randomise.ranges.{name}"
        if name not in nominal:
            raise ConfigError(
                f"{where}: the environment has no such parameter{nearest(name, nominal)}"
            )
        if len(bounds) != 2 or not least < bounds[0] <= bounds[1]:
            raise ConfigError(
                f"{where} is {list(bounds)}: must be [low, high], low at most high and above "
                f"{least:g}"
            )
    ranges = {
        **({} if given else {name: around(value) for name, value in nominal.items()}),
        **{name: (float(bounds[0]), float(bounds[1])) for name, bounds in given.items()},
    }
    return {name: (low, high) for name, (low, high) in ranges.items() if low < high}
