"""Groups of runs that differ only in their seed, named by their config differences."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlcomp.errors import ConfigError, nearest
from rlcomp.report.runs import Run

# The seed, and settings that do not affect the metrics.
_IGNORED = ("seed", "directory", "tracker", "overwrite", "parallel", "accept_changed_files")
_ABSENT = "-"
_MAX_NAME, _MAX_SHOWN = 60, 5  # characters of a name, and groups, in a message


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs of one config.

    Attributes:
        name: the settings in which the groups differ.
        runs: all runs; the statistics are over the finished ones.
        differences: the group's values at the config paths at which the groups differ.
    """

    name: str
    runs: tuple[Run, ...]
    differences: Mapping[str, str]

    @property
    def finished(self) -> tuple[Run, ...]:
        """Return the finished runs, one for each seed."""
        return tuple(run for run in self.runs if run.state == "finished")


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Group runs in the order of their first runs; skip jobs with neither config nor metrics.

    A run without a config is a group of its own. Of several finished runs with the same config and
    seed only the newest counts.
    """
    by_config: dict[object, list[Run]] = {}
    for run in runs:
        if run.values is not None or run.rows:
            by_config.setdefault(_identity(run), []).append(run)
    members = [tuple(_mark_repeated(config_runs)) for config_runs in by_config.values()]
    first_runs = [config_runs[0] for config_runs in members]
    differences = _differing_values([_config(run) for run in first_runs])
    names = _names(first_runs, differences)
    return [Group(*parts) for parts in zip(names, members, differences, strict=True)]


def _config(run: Run) -> dict[str, str]:
    values = {
        path: value
        for path, value in (run.values or {}).items()
        if path.split(".")[0] not in _IGNORED
    }
    # resume=PATH is part of the experiment; how a run continues its own checkpoint is not.
    if values.get("resume") in ("auto", "must", "never"):
        del values["resume"]
    return values


def _identity(run: Run) -> object:
    return run.directory if run.values is None else frozenset(_config(run).items())


def _mark_repeated(runs: Sequence[Run]) -> list[Run]:
    """Mark a finished run as ``repeated`` if another one of its seed has newer metrics."""
    newest: dict[str | None, Run] = {}
    for run in runs:
        if run.state == "finished" and run.seed is not None:
            pair = (newest.get(run.seed, run), run)
            newest[run.seed] = max(
                pair, key=lambda run: (run.directory / "metrics.jsonl").stat().st_mtime
            )
    return [
        dataclasses.replace(run, state="repeated")
        if run.state == "finished" and run.seed is not None and run is not newest[run.seed]
        else run
        for run in runs
    ]


def _differing_values(settings: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the settings of each group without the values that are equal everywhere."""
    paths = dict.fromkeys(path for values in settings for path in values)
    varied = [path for path in paths if len({values.get(path, _ABSENT) for values in settings}) > 1]
    return [{path: values.get(path, _ABSENT) for path in varied} for values in settings]


def _names(first_runs: Sequence[Run], differences: Sequence[Mapping[str, str]]) -> list[str]:
    """Name groups by the command line if its settings distinguish them, else by the configs."""
    if len(first_runs) == 1:
        recipe = first_runs[0].choices.get("recipe")
        return [f"recipe={recipe}" if recipe else first_runs[0].directory.name]
    keys = dict.fromkeys(key for run in first_runs for key in _settings(run))
    settings = _differing_values([{key: _setting(run, key) for key in keys} for run in first_runs])
    names = [_words(values) for values in settings]
    if len(set(names)) < len(names):
        names = [_words(values) for values in differences]
    if len(set(names)) < len(names):  # no configs at all
        names = [str(run.directory) for run in first_runs]
    return names


def _words(settings: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items())


def _settings(run: Run) -> dict[str, str]:
    """Return the settings of the command line, without ignored settings."""
    ignored = (*_IGNORED, "resume")
    return {key: v for key, v in run.overrides.items() if key.split(".")[0] not in ignored}


def _setting(run: Run, key: str) -> str:
    for source in (run.overrides, run.choices, run.values or {}):
        if key in source:
            return source[key]
    return _ABSENT


def find_baseline(groups: Sequence[Group], requested: str | None) -> Group:
    """Return the group with the requested name, run or setting; None: the first group.

    Raises:
        ConfigError: no group matches, or more than one.
    """
    if requested is None:
        return groups[0]
    path = Path(requested).resolve()  # the name may be the directory of a run
    by_name = [group for group in groups if group.name == requested] or [
        group for group in groups if any(run.directory.resolve() == path for run in group.runs)
    ]
    pairs = [word.partition("=")[::2] for word in requested.split()]
    matches = by_name or [
        group
        for group in groups
        if all(_setting(group.runs[0], key) == value for key, value in pairs)
    ]
    if len(matches) != 1:
        fault = "no group" if not matches else f"{len(matches)} groups"
        raise ConfigError(
            f"--baseline is {requested!r} and names {fault}{_list_names(requested, groups)}"
        )
    return matches[0]


def _list_names(requested: str, groups: Sequence[Group]) -> str:
    """List the groups by name, or by a run of each if names are too long to type."""
    if max(len(group.name) for group in groups) <= _MAX_NAME:
        return nearest(requested, [group.name for group in groups])
    examples = [
        f"{group.runs[0].directory} ({group.name[:_MAX_NAME]}…)" for group in groups[:_MAX_SHOWN]
    ]
    return f"; name a run of the group: {', '.join(examples)}{', …' if groups[_MAX_SHOWN:] else ''}"
