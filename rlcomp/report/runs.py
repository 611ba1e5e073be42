"""Search and loading of runs on disk: config, metrics and outcome."""

from __future__ import annotations

import glob
import os
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from rlcomp.config.compare import flatten
from rlcomp.errors import DataError, RlcompWarning, in_one_line, nearest
from rlcomp.files.json_lines import read_metrics
from rlcomp.files.run_directory import OVERWRITTEN
from rlcomp.files.run_record import FAILURE, RUN_RECORD, is_locked, read_failure, read_run_record
from rlcomp.files.untrusted import check_no_aliases
from rlcomp.report.run_files import read_early_ends
from rlcomp.sweep.jobs import jobs_of_sweep, plain_key, requested_overrides, swept_keys

State = Literal["finished", "running", "failed", "stopped", "never started", "repeated"]
# Files with a run's config.
_CONFIG_FILES = (RUN_RECORD, ".hydra/*.yaml", "checkpoints/*/config.yaml")
# Errors from a file that cannot be read, or from a value of another type.
_TYPE_ERRORS = (AttributeError, LookupError, TypeError, ValueError, RecursionError, OSError)
# A folder with one of these is a run.
_RUN_FILES = ("metrics.jsonl", ".hydra", FAILURE)
_FOLDERS_OF_A_RUN = {"checkpoints", "wandb", "tensorboard", ".hydra", OVERWRITTEN}


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        directory: folder of the run.
        state: whether it ended, and how; ``repeated``: finished, but another run of the same config
            and seed is newer (set by :func:`rlcomp.report.groups.group_runs`).
        error: error of a failed run.
        rows: rows of ``metrics.jsonl``.
        values: the config, every value by its path; None if it was not saved.
        overrides: settings of the command line, by key; ``removed`` for ``~key``.
        choices: the option of every group of options.
        planned: steps of all phases up to their early ends; None if the config was not saved.
        periodic_names: names of the components that run periodically (``every``).
        ended: phases that ended early (``ended.jsonl``).
        command: the words of the command line.
        environment: versions, commits and the like; empty if they were not saved.
    """

    directory: Path
    state: State
    error: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    values: Mapping[str, str] | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    planned: int | None = None
    periodic_names: frozenset[str] = frozenset()
    ended: list[dict[str, Any]] = field(default_factory=list)
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def seed(self) -> str | None:
        """Return the run's seed."""
        return (self.values or self.overrides).get("seed")

    @property
    def steps(self) -> int:
        """Return the number of finished steps."""
        return int(self.rows[-1]["total"]) if self.rows else 0


def find_runs(paths: Sequence[str]) -> list[Run]:
    """Return every run under the paths, and the jobs of their sweeps that never started.

    Args:
        paths: runs, sweeps, folders of them, or patterns (``runs/*_grpo``).

    Raises:
        DataError: a path does not exist, is a file, or holds no run; or a run cannot be read.
        CheckpointError: see :func:`read_run`.
    """
    _refuse_files(paths)
    by_directory: dict[Path, Run] = {}
    for root in [folder for path in paths for folder in _expand_pattern(path)]:
        folders = [folder for folder, names in _folders(root) if names & {*_RUN_FILES}]
        runs = [read_run(folder) for folder in sorted(folders, key=_natural_key)]
        runs += _never_started(root, runs)
        if not runs:
            raise DataError(
                f"{root}: there is no run in it (no metrics.jsonl, no .hydra): name the directory "
                f"of a run or of a sweep{_suggest_run(root)}"
            )
        by_directory |= {run.directory.resolve(): run for run in runs}
    return list(by_directory.values())


def finished(folder: Path) -> dict[str, Run]:
    """Return the finished runs with a seed under a folder, by seed; empty without the folder."""
    runs = find_runs([str(folder)]) if folder.is_dir() else []
    return {run.seed: run for run in runs if run.state == "finished" and run.seed is not None}


def _refuse_files(paths: Sequence[str]) -> None:
    """Refuse files, and name the runs that contain them."""
    files = [path for path in paths if Path(path).is_file()]
    if not files:
        return
    runs = [
        _suggest_run(Path(path)).removeprefix(", ") if path in files else path for path in paths
    ]
    line = f", rlcomp-report {shlex.join(dict.fromkeys(runs))}" if all(runs) else ""
    message = f"{files[0]} is a file: name the directory of a run or of a sweep"
    raise DataError(f"{message}{line}")


def _expand_pattern(path: str) -> list[Path]:
    if Path(path).is_dir():
        return [Path(path)]
    matches = [Path(match) for match in sorted(glob.glob(path)) if Path(match).is_dir()]
    if not matches:
        parent = Path(path).parent
        folders = [p for p in parent.iterdir() if p.is_dir()] if parent.is_dir() else []
        siblings = [folder.name for folder in folders if folder.name not in _FOLDERS_OF_A_RUN]
        no_parent = "" if parent.is_dir() else f", and no {parent} either"
        suggestion = nearest(Path(path).name, siblings) if parent.is_dir() else ""
        raise DataError(f"{path}: there is no such directory{no_parent}{suggestion}")
    return matches


def _suggest_run(path: Path) -> str:
    """Name the run that contains a path, as the remedy."""
    runs = (p for p in path.parents if any((p / name).exists() for name in _RUN_FILES))
    run = next(runs, None)
    return f", {run}" if run else ""


def _folders(root: Path) -> Iterator[tuple[Path, set[str]]]:
    """Yield a folder and all folders below it, each with the names in it."""
    for folder, inner, files in os.walk(root):
        yield Path(folder), {*inner, *files}
        inner[:] = [name for name in inner if name not in _FOLDERS_OF_A_RUN]


def _natural_key(path: Path) -> list[tuple[int, int, str]]:
    """Return a sort key that puts job 10 after job 9."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in path.parts]


def _never_started(root: Path, runs: Sequence[Run]) -> list[Run]:
    """Return the jobs of sweeps whose run never started."""
    missing = []
    for sweep in (folder for folder, names in _folders(root) if "multirun.yaml" in names):
        runs_of_sweep = [run for run in runs if run.directory.is_relative_to(sweep)]
        started_jobs = {frozenset(run.overrides.items()) for run in runs_of_sweep}
        with _report_unreadable_config(sweep):
            keys, all_jobs = swept_keys(requested_overrides(sweep)), jobs_of_sweep(sweep)
        for number, job in enumerate(all_jobs):
            job_overrides = _by_key(job)
            if frozenset(job_overrides.items()) not in started_jobs:
                varying = {key: value for key, value in job_overrides.items() if key in keys}
                missing.append(Run(sweep / f"job {number}", "never started", overrides=varying))
    return missing


def read_run(directory: Path) -> Run:
    """Read a run from disk.

    Raises:
        CheckpointError: a config file expands without end.
        DataError: a file of the run is malformed.
    """
    rows = read_metrics(directory / "metrics.jsonl")
    ended = read_early_ends(directory)
    with _report_unreadable_config(directory):
        record = read_run_record(directory)
        config = record.config
        planned = None if config is None else _planned_steps(config, ended)
        every = {} if config is None else _phases(config, "every")
        periodic_names = frozenset(str(name) for stages in every.values() for name in stages or ())
        values = None if config is None else flatten(config)
        overrides = _by_key(record.overrides)
        choices = {str(group): str(option) for group, option in record.choices.items()}
        environment = {str(name): str(value) for name, value in record.environment.items()}
    state, error = _state_and_error(directory, int(rows[-1]["total"]) if rows else 0, planned)
    return Run(
        directory=directory,
        state=state,
        error=error,
        rows=rows,
        values=values,
        overrides=overrides,
        choices=choices,
        planned=planned,
        periodic_names=periodic_names,
        ended=ended,
        command=record.overrides,
        environment=environment,
    )


@contextmanager
def _report_unreadable_config(directory: Path) -> Iterator[None]:
    """Report errors of this context, which reads untrusted yaml files, as errors of the directory.

    Raises:
        CheckpointError: a file expands without end; checked before the context begins.
        DataError: the context raised an error of OmegaConf, of YAML or of a value's type.
    """
    for name in _CONFIG_FILES:
        for file in directory.glob(name):
            check_no_aliases(file)
    try:
        yield
    except (OmegaConfBaseException, YAMLError, *_TYPE_ERRORS) as error:
        raise DataError(
            f"{directory}: its config ({', '.join(_CONFIG_FILES)}) is damaged "
            f"({in_one_line(error)}): mend it, or name other runs"
        ) from error


def _phases(config: DictConfig, name: str) -> dict[str, Any]:
    phases = (config.get("phases") or {}).items()
    return {str(path): phase[name] for path, phase in phases if phase and name in phase}


def _planned_steps(config: DictConfig, ended: Sequence[Mapping[str, Any]]) -> int:
    """Count the steps of all phases; for a phase that ended early, the steps before its end."""
    steps = _phases(config, "steps")
    early = {row["phase"]: row["step"] for row in ended if row["phase"] in steps}
    return sum(min(early.get(phase, count), count) for phase, count in steps.items())


def _state_and_error(directory: Path, steps: int, planned: int | None) -> tuple[State, str]:
    # A failure counts before the steps do. The steps may belong to an earlier run, and the failure
    # to an attempt to continue that run with another config.
    error = _failure(directory)
    if error is not None:
        return "failed", error
    if steps and (planned is None or steps >= planned):
        return "finished", ""
    return ("running", "") if is_locked(directory) else ("stopped", "")


def _failure(directory: Path) -> str | None:
    """Return the error of a failed run; an unreadable failure file counts as a failure."""
    try:
        return read_failure(directory)
    except _TYPE_ERRORS as error:
        message = f"{directory / FAILURE} is damaged ({in_one_line(error)})"
        warnings.warn(message, RlcompWarning, stacklevel=2)
        return f"its {FAILURE} cannot be read"


def _by_key(overrides: Sequence[str]) -> dict[str, str]:
    pairs = (text.partition("=")[::2] for text in overrides)
    return {plain_key(key): "removed" if key[:1] == "~" else value for key, value in pairs}
