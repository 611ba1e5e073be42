"""Pareto fronts of multi-objective runs: points, fronts, quality indicators."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from rlcomp.errors import ConfigError, DataError, MissingExtra, nearest
from rlcomp.files.atomic_write import atomic_write
from rlcomp.functional.front import additive_epsilon, extent, hypervolume, igd_plus, nondominated
from rlcomp.report.groups import Group, grouped
from rlcomp.report.points import objectives_of, reached
from rlcomp.report.runs import Run
from rlcomp.report.statistics import Array, Estimate, estimate

# The name of what all groups reach together.
ALL = "all together"


@dataclasses.dataclass(frozen=True)
class Point:
    """What finished runs of one config reached, asked for one preference (``""``: for none).

    Attributes:
        family: the groups it makes a front with.
        label: the preference, as it is written in the metrics.
        runs: the last evaluation of each run, shape ``[n, K]``.
        on_front: whether no other mean dominates its own.
    """

    family: str
    label: str
    runs: Array
    on_front: bool = False

    @property
    def mean(self) -> Array:
        """Over runs, shape ``[K]``."""
        centre: Array = self.runs.mean(0)
        return centre


@dataclasses.dataclass(frozen=True)
class Quality:
    """How good the front of a family is, over seeds; the aim is the front of all that is known."""

    family: str
    hypervolume: Estimate
    igd_plus: Estimate
    epsilon: Estimate
    extent: Estimate


@dataclasses.dataclass(frozen=True)
class Fronts:
    """The fronts of a report.

    Attributes:
        names: of the objectives that all runs share.
        reference: the point above which a hypervolume is measured, shape ``[K]``: that of the
            runs' evaluators, or where these differ the lowest in each objective.
        references: those of the evaluators, each once.
        points: of every config and preference.
        qualities: of every family, and of all together; empty where they cannot be measured.
        missing: what to install for them.
    """

    names: tuple[str, ...]
    reference: tuple[float, ...]
    references: list[tuple[float, ...]]
    points: list[Point]
    qualities: list[Quality]
    missing: str = ""


def fronts_of(groups: Sequence[Group], along: str = "") -> Fronts | None:
    """The fronts of all finished runs; None with fewer than two objectives.

    Args:
        groups: of runs.
        along: config path of a setting (or of several: ``objectives.aggregator.weights``); groups
            that differ in nothing else make one front.

    Raises:
        ConfigError: no run has such a setting; the message names the nearest that differs.
    """
    _check_setting(groups, along)
    runs = [run for group in groups for run in group.runs]
    names = _shared([objectives_of(run.rows) for run in runs])
    if len(names) < 2:
        return None
    families = _families(groups, along)
    points = _marked(
        [
            Point(family, label, np.stack(found))
            for family, members in families.items()
            for group in members
            for label, found in _by_label(group, names).items()
        ]
    )
    references = _references(runs, names)
    reference = tuple(map(min, zip(*references, strict=True)))
    try:
        qualities = _qualities(families, names, reference)
    except MissingExtra as error:
        return Fronts(names, reference, references, points, [], str(error))
    return Fronts(names, reference, references, points, qualities)


def _shared(recorded: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The objectives of all runs that have several, in the order of the first."""
    several = [names for names in recorded if len(names) > 1]
    first = several[0] if several else ()
    return tuple(name for name in first if all(name in names for names in several))


def _check_setting(groups: Sequence[Group], along: str) -> None:
    runs = [run for group in groups for run in group.runs]
    known = {path for run in runs for path in (run.values or run.overrides)}
    if along and along not in _with_parents(known):
        varied = _with_parents({path for group in groups for path in group.differences})
        raise ConfigError(f"--along: no run has a setting {along!r}{nearest(along, varied)}")


def _with_parents(paths: Iterable[str]) -> set[str]:
    parts = [path.split(".") for path in paths]
    return {".".join(one[: end + 1]) for one in parts for end in range(len(one))}


def _families(groups: Sequence[Group], along: str) -> dict[str, list[Group]]:
    if not along:
        return {group.name: [group] for group in groups}
    by_directory = {group.runs[0].directory: group for group in groups}
    merged = grouped([_without(group.runs[0], along) for group in groups])
    return {one.name: [by_directory[run.directory] for run in one.runs] for one in merged}


def _without(run: Run, along: str) -> Run:
    def kept(values: Mapping[str, str]) -> dict[str, str]:
        return {k: v for k, v in values.items() if not f"{k}.".startswith(f"{along}.")}

    values = None if run.values is None else kept(run.values)
    return dataclasses.replace(run, values=values, overrides=kept(run.overrides))


def _by_label(group: Group, names: Sequence[str]) -> dict[str, list[Array]]:
    found: dict[str, list[Array]] = {}
    for run in group.finished:
        for label, point in reached(run.rows, names).items():
            found.setdefault(label, []).append(point)
    return found


def _marked(points: Sequence[Point]) -> list[Point]:
    if not points:
        return []
    best = nondominated(np.stack([point.mean for point in points]))
    return [
        dataclasses.replace(point, on_front=bool(on_front))
        for point, on_front in zip(points, best, strict=True)
    ]


def _references(runs: Sequence[Run], names: Sequence[str]) -> list[tuple[float, ...]]:
    """The reference points of the runs' evaluators, as their configs hold them, each once."""
    several = [run for run in runs if len(objectives_of(run.rows)) > 1]
    return list(dict.fromkeys(_reference(run, names) for run in several))


def _reference(run: Run, names: Sequence[str]) -> tuple[float, ...]:
    found = dict.fromkeys(names, 0.0)
    for path, value in (run.values or {}).items():
        before, _, name = path.rpartition(".")
        if before.endswith("reference_point") and name in found:
            found[name] = _number(path, value)
    return tuple(found.values())


def _number(path: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise DataError(f"{path} is {value!r} in the config of a run: not a number") from error


def _qualities(
    families: Mapping[str, Sequence[Group]], names: Sequence[str], reference: Sequence[float]
) -> list[Quality]:
    seeds = {family: _by_seed(members, names) for family, members in families.items()}
    sets = [points for by_seed in seeds.values() for points in by_seed.values()]
    if not sets:
        return []
    everything = np.vstack(sets)
    aim = everything[nondominated(everything)]
    if sum(map(bool, seeds.values())) > 1:
        seeds[ALL] = _joined(list(seeds.values()))
    return [
        _quality(family, list(by_seed.values()), reference, aim)
        for family, by_seed in seeds.items()
        if by_seed
    ]


def _by_seed(members: Sequence[Group], names: Sequence[str]) -> dict[str, Array]:
    """The points of all groups together, ``[n, K]`` for each seed that every one of them has."""
    return _joined(
        [
            {
                run.seed or str(run.directory): np.stack(list(points.values()))
                for run in group.finished
                if (points := reached(run.rows, names))
            }
            for group in members
        ]
    )


def _joined(sets: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Side by side, for the seeds that all have; what has none, unfinished, is left out."""
    known = [one for one in sets if one]
    common = [seed for seed in (known[0] if known else {}) if all(seed in one for one in known)]
    return {seed: np.vstack([one[seed] for one in known]) for seed in common}


def _quality(family: str, sets: Sequence[Array], reference: Sequence[float], aim: Array) -> Quality:
    def over_seeds(measure: Callable[[Array], float]) -> Estimate:
        found = estimate([measure(points) for points in sets])
        assert found is not None  # a family without a seed has no quality
        return found

    return Quality(
        family,
        over_seeds(lambda points: hypervolume(points, reference)),
        over_seeds(lambda points: igd_plus(points, aim)),
        over_seeds(lambda points: additive_epsilon(points, aim)),
        over_seeds(extent),
    )


def write_fronts(path: Path, fronts: Fronts) -> None:
    """One line for each family and measure."""
    with atomic_write(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["front", "measure", "mean", "low", "high", "n"])
        for quality in fronts.qualities:
            for measure in ("hypervolume", "igd_plus", "epsilon", "extent"):
                value: Estimate = getattr(quality, measure)
                row = [quality.family, measure, value.mean, value.low, value.high, value.n]
                writer.writerow(row)
