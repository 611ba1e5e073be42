"""Pareto fronts of multi-objective runs: points, fronts, quality indicators."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from rlcomp.errors import ConfigError, DataError, MissingExtra, nearest
from rlcomp.files.atomic_write import atomic_write
from rlcomp.functional.pareto_front import (
    additive_epsilon,
    extent,
    hypervolume,
    igd_plus,
    nondominated,
)
from rlcomp.report.groups import Group, group_runs
from rlcomp.report.returns import final_returns, objectives_of
from rlcomp.report.runs import Run
from rlcomp.report.statistics import Array, MeanEstimate, estimate

# Name of the front of all groups together.
ALL = "all together"


@dataclasses.dataclass(frozen=True)
class FrontPoint:
    """Result of the finished runs of one config for one preference (``""``: none).

    Attributes:
        family: name of the front of this point.
        label: the preference, as in the metrics.
        runs: the last evaluation of each run, shape ``[n, K]``.
        on_front: True if no other point's mean dominates this point's mean.
    """

    family: str
    label: str
    runs: Array
    on_front: bool = False

    @property
    def mean(self) -> Array:
        """Average over runs, shape ``[K]``."""
        centre: Array = self.runs.mean(0)
        return centre


@dataclasses.dataclass(frozen=True)
class Quality:
    """Quality of a family's front, estimated over seeds (:mod:`rlcomp.functional.pareto_front`).

    The reference front of ``igd_plus`` and ``epsilon`` has the points of all families' runs that no
    other point dominates.
    """

    family: str
    hypervolume: MeanEstimate
    igd_plus: MeanEstimate
    epsilon: MeanEstimate
    extent: MeanEstimate


@dataclasses.dataclass(frozen=True)
class Fronts:
    """The fronts of a report.

    Attributes:
        names: names of the objectives that all runs share.
        reference: reference point of the hypervolume, shape ``[K]``: the lowest of the evaluators'
            reference points in each objective.
        references: the distinct reference points of the evaluators.
        points: points of every config and preference.
        qualities: qualities of every family, and of all together; empty if a package is missing.
        missing: the message about a missing package.
    """

    names: tuple[str, ...]
    reference: tuple[float, ...]
    references: list[tuple[float, ...]]
    points: list[FrontPoint]
    qualities: list[Quality]
    missing: str = ""


def compute_fronts(groups: Sequence[Group], along: str = "") -> Fronts | None:
    """Return the fronts of all finished runs; None with fewer than two objectives.

    Args:
        groups: groups of runs.
        along: config path of a setting or of a node (``objectives.aggregator.weights``); groups
            that differ only there form one front. Empty: each group is a front of its own.

    Raises:
        ConfigError: no run has such a setting; the message names the nearest varied setting.
        DataError: a run's reference point is not a number.
    """
    _check_setting(groups, along)
    runs = [run for group in groups for run in group.runs]
    # The objectives that all multi-objective runs share, in the order of the first of these runs.
    name_sets = [names for run in runs if len(names := objectives_of(run.rows)) > 1]
    first = name_sets[0] if name_sets else ()
    names = tuple(name for name in first if all(name in others for others in name_sets))
    if len(names) < 2:
        return None
    families = _families(groups, along)
    points = _mark_front(
        [
            FrontPoint(family, label, np.stack(ends))
            for family, members in families.items()
            for group in members
            for label, ends in _final_points(group, names).items()
        ]
    )
    evaluated = [run for run in runs if len(objectives_of(run.rows)) > 1]
    references = list(dict.fromkeys(_reference(run, names) for run in evaluated))
    reference = tuple(map(min, zip(*references, strict=True)))
    try:
        qualities = _qualities(families, names, reference)
    except MissingExtra as error:
        return Fronts(names, reference, references, points, [], str(error))
    return Fronts(names, reference, references, points, qualities)


def _check_setting(groups: Sequence[Group], along: str) -> None:
    runs = [run for group in groups for run in group.runs]
    settings = {path for run in runs for path in (run.values or run.overrides)}
    if along and along not in _with_parents(settings):
        varied = _with_parents({path for group in groups for path in group.differences})
        raise ConfigError(f"--along: no run has a setting {along!r}{nearest(along, varied)}")


def _with_parents(paths: Iterable[str]) -> set[str]:
    parts = [path.split(".") for path in paths]
    return {".".join(names[: end + 1]) for names in parts for end in range(len(names))}


def _families(groups: Sequence[Group], along: str) -> dict[str, list[Group]]:
    # By the front's name. With ``along`` the groups' first runs are grouped without this setting.
    if not along:
        return {group.name: [group] for group in groups}
    by_directory = {group.runs[0].directory: group for group in groups}
    combined = group_runs([_without_setting(group.runs[0], along) for group in groups])
    return {
        family.name: [by_directory[run.directory] for run in family.runs] for family in combined
    }


def _without_setting(run: Run, along: str) -> Run:
    def without_setting(values: Mapping[str, str]) -> dict[str, str]:
        return {k: v for k, v in values.items() if not f"{k}.".startswith(f"{along}.")}

    values = None if run.values is None else without_setting(run.values)
    return dataclasses.replace(run, values=values, overrides=without_setting(run.overrides))


def _final_points(group: Group, names: Sequence[str]) -> dict[str, list[Array]]:
    ends: dict[str, list[Array]] = {}
    for run in group.finished:
        for label, point in final_returns(run.rows, names).items():
            ends.setdefault(label, []).append(point)
    return ends


def _mark_front(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    if not points:
        return []
    mask = nondominated(np.stack([point.mean for point in points]))
    return [
        dataclasses.replace(point, on_front=bool(on_front))
        for point, on_front in zip(points, mask, strict=True)
    ]


def _reference(run: Run, names: Sequence[str]) -> tuple[float, ...]:
    # From the ``reference_point`` in the run's config; 0 for an objective that it leaves out.
    point = dict.fromkeys(names, 0.0)
    for path, value in (run.values or {}).items():
        before, _, name = path.rpartition(".")
        if before.endswith("reference_point") and name in point:
            point[name] = _number(path, value)
    return tuple(point.values())


def _number(path: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise DataError(f"{path} is {value!r} in the config of a run: not a number") from error


def _qualities(
    families: Mapping[str, Sequence[Group]], names: Sequence[str], reference: Sequence[float]
) -> list[Quality]:
    by_family = {family: _by_seed(members, names) for family, members in families.items()}
    sets = [points for by_seed in by_family.values() for points in by_seed.values()]
    if not sets:
        return []
    all_points = np.vstack(sets)
    reference_front = all_points[nondominated(all_points)]
    if sum(map(bool, by_family.values())) > 1:
        by_family[ALL] = _pool_seeds(list(by_family.values()))
    return [
        _quality(family, list(by_seed.values()), reference, reference_front)
        for family, by_seed in by_family.items()
        if by_seed
    ]


def _by_seed(members: Sequence[Group], names: Sequence[str]) -> dict[str, Array]:
    """Return the points of all groups together, ``[n, K]`` for each seed that every group has."""
    return _pool_seeds(
        [
            {
                run.seed or str(run.directory): np.stack(list(points.values()))
                for run in group.finished
                if (points := final_returns(run.rows, names))
            }
            for group in members
        ]
    )


def _pool_seeds(sets: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Join the points of groups by the seeds that all groups have; skip groups without points."""
    filled = [by_seed for by_seed in sets if by_seed]
    common = [
        seed for seed in (filled[0] if filled else {}) if all(seed in by_seed for by_seed in filled)
    ]
    return {seed: np.vstack([by_seed[seed] for by_seed in filled]) for seed in common}


def _quality(
    family: str, sets: Sequence[Array], reference: Sequence[float], reference_front: Array
) -> Quality:
    """Estimate the indicators over the points of each seed, ``[n, K]``."""

    def over_seeds(measure: Callable[[Array], float]) -> MeanEstimate:
        value = estimate([measure(points) for points in sets])
        assert value is not None  # there is at least one seed
        return value

    return Quality(
        family,
        over_seeds(lambda points: hypervolume(points, reference)),
        over_seeds(lambda points: igd_plus(points, reference_front)),
        over_seeds(lambda points: additive_epsilon(points, reference_front)),
        over_seeds(extent),
    )


def write_fronts(path: Path, fronts: Fronts) -> None:
    """Write a CSV file with one line for each family and measure."""
    with atomic_write(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["front", "measure", "mean", "low", "high", "n"])
        for quality in fronts.qualities:
            for measure in ("hypervolume", "igd_plus", "epsilon", "extent"):
                value: MeanEstimate = getattr(quality, measure)
                row = [quality.family, measure, value.mean, value.low, value.high, value.n]
                writer.writerow(row)
