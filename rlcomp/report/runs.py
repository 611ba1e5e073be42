"""Runs as they lie on disk: found under any folder, each with its config, its record, its end."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from omegaconf import DictConfig, OmegaConf

from rlcomp.errors import DataError, nearest
from rlcomp.report.lines import read_lines
from rlcomp.run.compare import flat
from rlcomp.run.outcome import FAILURE, failure, running
from rlcomp.run.sweep import asked, jobs, plain_key, varied

State = Literal["finished", "running", "failed", "stopped", "never started", "repeated"]
# A folder is a run if it holds one of these.
_MARKS = ("metrics.jsonl", ".hydra", FAILURE)
_INSIDE = {"checkpoints", "wandb", "tensorboard", ".hydra"}


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
        planned: steps of all phases; None where the config was not kept.
        beside: names of what runs beside the stages (``every``).
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
        directories = sorted(_runs_under(place), key=_natural)
        lost = {job.directory.resolve(): job for job in _never_started(place)}
        if not directories and not lost:
            raise DataError(
                f"{place}: there is no run in it (no metrics.jsonl, no .hydra): name the directory "
                "of a run or of a sweep"
            )
        found |= {path.resolve(): read_run(path) for path in directories} | lost
    return list(found.values())


def _expanded(path: str) -> list[Path]:
    if Path(path).is_dir():
        return [Path(path)]
    matches = [Path(match) for match in sorted(glob.glob(path)) if Path(match).is_dir()]
    if not matches:
        parent = Path(path).parent
        beside = [str(p) for p in parent.iterdir() if p.is_dir()] if parent.is_dir() else []
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


def _never_started(place: Path) -> list[Run]:
    """The jobs that a sweep has and no directory knows of."""
    found = []
    for sweep in (folder for folder, names in _folders(place) if "multirun.yaml" in names):
        started = {frozenset(_overrides(folder)) for folder in _runs_under(sweep)}
        axes = varied(asked(sweep))
        for number, job in enumerate(jobs(sweep)):
            if frozenset(job) not in started:
                own = {key: value for key, value in _by_key(job).items() if key in axes}
                found.append(Run(sweep / f"job {number}", "never started", overrides=own))
    return found


def read_run(directory: Path) -> Run:
    """A run as it lies on disk."""
    rows = read_lines(directory / "metrics.jsonl")
    config = _config(directory)
    planned = None if config is None else sum(_phases(config, "steps"))
    state, error = _ended(directory, int(rows[-1]["total"]) if rows else 0, planned)
    beside = [] if config is None else _phases(config, "every")
    return Run(
        directory=directory,
        state=state,
        error=error,
        rows=rows,
        values=None if config is None else flat(config),
        overrides=_by_key(_overrides(directory)),
        choices=_choices(directory),
        planned=planned,
        beside=frozenset(name for every in beside for name in every or ()),
    )


def _config(directory: Path) -> DictConfig | None:
    """As Hydra kept it, or else the newest checkpoint."""
    kept = sorted((directory / "checkpoints").glob("*/config.yaml"))
    for file in [directory / ".hydra" / "config.yaml", *reversed(kept)]:
        if file.is_file():
            return cast("DictConfig", OmegaConf.load(file))
    return None


def _phases(config: DictConfig, name: str) -> list[Any]:
    phases = (config.get("phases") or {}).values()
    return [phase[name] for phase in phases if phase and name in phase]


def _ended(directory: Path, steps: int, planned: int | None) -> tuple[State, str]:
    if steps and (planned is None or steps >= planned):
        return "finished", ""
    if running(directory):
        return "running", ""
    error = failure(directory)
    if error is not None:
        return "failed", error
    return ("stopped", "") if steps else ("never started", "")


def _overrides(directory: Path) -> list[str]:
    file = directory / ".hydra" / "overrides.yaml"
    return [str(text) for text in OmegaConf.load(file)] if file.is_file() else []


def _by_key(overrides: Sequence[str]) -> dict[str, str]:
    pairs = (text.partition("=")[::2] for text in overrides)
    return {plain_key(key): value for key, value in pairs}


def _choices(directory: Path) -> dict[str, str]:
    file = directory / ".hydra" / "hydra.yaml"
    if not file.is_file():
        return {}
    chosen = OmegaConf.select(OmegaConf.load(file), "hydra.runtime.choices", default={})
    return {str(group): str(option) for group, option in chosen.items()}
