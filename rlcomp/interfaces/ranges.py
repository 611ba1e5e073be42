"""Ranges of parameters that are given by name, or follow from their nominal values."""

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
    """The ranges that are given; where none is, one around the nominal value of every parameter.

    A range of a single value is left out: it leaves the parameter as it is.

    Args:
        nominal: every parameter of the environment.
        given: ``[low, high]`` by parameter; empty: all of them.
        around: the range around a nominal value.
        least: what every low end must be above.

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
    found = {
        **({} if given else {name: around(value) for name, value in nominal.items()}),
        **{name: (float(bounds[0]), float(bounds[1])) for name, bounds in given.items()},
    }
    return {name: (low, high) for name, (low, high) in found.items() if low < high}
