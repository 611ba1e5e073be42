"""Finds and loads runs on disk: config, metrics and outcome."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig

from rlcomp.errors import DataError, nearest
from rlcomp.io.attempt import FAILURE, attempt_in
from rlcomp.io.json_lines import read_metrics
from rlcomp.io.outcome import failure, running
from rlcomp.io.record import OVERWRITTEN
from rlcomp.report.ended import ended_phases
from rlcomp.sweep.jobs import asked, jobs, plain_key, varied
from rlcomp.wiring.compare import flat

State = Literal["finished", "running", "failed", "stopped", "never started", "repeated"]
# A folder is a run if it holds one of these.
_MARKS = ("metrics.jsonl", ".hydra", FAILURE)
_INSIDE = {"checkpoints", "wandb", "tensorboard", ".hydra", OVERWRITTEN}


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        directory: where it lies.
        state: how it ended, or has not.
        error: what a failed run failed with.
        rows: ``metrics.jsonl``.
        values: the config, every value by its path; None where it was not kept.
        overrides: what the command line set, by key.
        choices: the option of every group of options.
        planned: steps of all phases, without those that an early end has spared; None where the
            config was not kept.
        beside: names of what runs beside the stages (``every``).
        ended: phases that were ended early (``ended.jsonl``).
    """

    directory: Path
    state: State
    error: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    values: Mapping[str, str] | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    planned: int | None = None
    beside: frozenset[str] = frozenset()
    ended: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seed(self) -> str | None:
        """The run's seed."""
        return (self.values or self.overrides).get("seed")

    @property
    def steps(self) -> int:
        """Steps that were finished."""
        return int(self.rows[-1]["total"]) if self.rows else 0


def find_runs(paths: Sequence[str]) -> list[Run]:
    """Every run under the paths, and the jobs of their sweeps that never started.

    Args:
        paths: runs, sweeps, folders of them, or patterns (``runs/*_grpo``).

    Raises:
        DataError: a path is not there, or holds no run.
    """
    found: dict[Path, Run] = {}
    for place in [place for path in paths for place in _expanded(path)]:
        runs = [read_run(folder) for folder in sorted(_runs_under(place), key=_natural)]
        runs += _never_started(place, runs)
        if not runs:
            raise DataError(
                f"{place}: there is no run in it (no metrics.jsonl, no .hydra): name the directory "
                "of a run or of a sweep"
            )
        found |= {run.directory.resolve(): run for run in runs}
    return list(found.values())


def _expanded(path: str) -> list[Path]:
    if Path(path).is_dir():
        return [Path(path)]
    if Path(path).is_file():
        raise DataError(f"{path} is a file: name the directory of a run or of a sweep")
    matches = [Path(match) for match in sorted(glob.glob(path)) if Path(match).is_dir()]
    if not matches:
        parent = Path(path).parent
        folders = [p for p in parent.iterdir() if p.is_dir()] if parent.is_dir() else []
        beside = [str(folder) for folder in folders if folder.name not in _INSIDE]
        raise DataError(f"{path}: there is no such directory{nearest(path, beside)}")
    return matches


def _folders(place: Path) -> Iterator[tuple[Path, set[str]]]:
    """The folder and those under it, each with the names in it."""
    for folder, inner, files in os.walk(place):
        yield Path(folder), {*inner, *files}
        inner[:] = [name for name in inner if name not in _INSIDE]


def _runs_under(place: Path) -> list[Path]:
    return [folder for folder, names in _folders(place) if names & {*_MARKS}]


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """Job 10 comes after job 9."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in path.parts]


def _never_started(place: Path, runs: Sequence[Run]) -> list[Run]:
    """The jobs that a sweep has and none of its runs is."""
    found = []
    for sweep in (folder for folder, names in _folders(place) if "multirun.yaml" in names):
        own = [run for run in runs if run.directory.is_relative_to(sweep)]
        started = {frozenset(run.overrides.items()) for run in own}
        axes = varied(asked(sweep))
        for number, job in enumerate(jobs(sweep)):
            asked_for = _by_key(job)
            if frozenset(asked_for.items()) not in started:
                varying = {key: value for key, value in asked_for.items() if key in axes}
                found.append(Run(sweep / f"job {number}", "never started", overrides=varying))
    return found


def read_run(directory: Path) -> Run:
    """A run as it lies on disk."""
    rows = read_metrics(directory / "metrics.jsonl")
    attempt = attempt_in(directory)
    config = attempt.config
    ended = ended_phases(directory)
    planned = None if config is None else _planned(config, ended)
    state, error = _ended(directory, int(rows[-1]["total"]) if rows else 0, planned)
    beside = [] if config is None else _phases(config, "every").values()
    return Run(
        directory=directory,
        state=state,
        error=error,
        rows=rows,
        values=None if config is None else flat(config),
        overrides=_by_key(attempt.overrides),
        choices=attempt.choices,
        planned=planned,
        beside=frozenset(name for every in beside for name in every or ()),
        ended=ended,
    )


def _phases(config: DictConfig, name: str) -> dict[str, Any]:
    phases = (config.get("phases") or {}).items()
    return {str(path): phase[name] for path, phase in phases if phase and name in phase}


def _planned(config: DictConfig, ended: Sequence[Mapping[str, Any]]) -> int:
    """The steps of all phases, of one that ended early those that it had."""
    steps = _phases(config, "steps")
    early = {row["phase"]: row["step"] for row in ended if row["phase"] in steps}
    return sum(min(early.get(phase, count), count) for phase, count in steps.items())


def _ended(directory: Path, steps: int, planned: int | None) -> tuple[State, str]:
    # Before the steps are counted: they may be those of an earlier run, which an attempt under
    # another config was not allowed to continue.
    error = failure(directory)
    if error is not None:
        return "failed", error
    if steps and (planned is None or steps >= planned):
        return "finished", ""
    return ("running", "") if running(directory) else ("stopped", "")


def _by_key(overrides: Sequence[str]) -> dict[str, str]:
    pairs = (text.partition("=")[::2] for text in overrides)
    return {plain_key(key): "removed" if key[:1] == "~" else value for key, value in pairs}
