"""Weights & Biases tracker: config, axes, tables of samples, pictures and pages of a run."""

from __future__ import annotations

import math
import netrc
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rlcomp.errors import Interrupted, exit_code
from rlcomp.trackers.metric_names import better
from rlcomp.trackers.tracker import Sample

# Axes of curves; the first is the default.
STEPS, TOKENS, SECONDS = AXES = ("axis/step", "axis/tokens", "axis/seconds")
_HELD_OUT = "evaluation/"


class WandB:
    """Weights & Biases; offline without a key.

    Args:
        directory: the run's directory.
        project: W&B project.
        run_name: W&B name of the run.
        group: name of the runs that belong together, usually of a sweep.
        job_type: the setting that varies within the group.
        tags: methods of this run.

    Attributes:
        config: the run's config; the caller sets it before :meth:`start`.
        report_files: returns the pictures and pages of a finished run; set likewise.
    """

    name = "wandb"

    def __init__(
        self,
        *,
        directory: str,
        project: str = "rlcomp",
        run_name: str | None = None,
        group: str | None = None,
        job_type: str | None = None,
        tags: list[str],
    ) -> None:
        self.directory = directory
        self.project = project
        self.run_name = run_name
        self.group = group
        self.job_type = job_type
        self.tags = tags
        self.config: Mapping[str, Any] = {}
        self.report_files: Callable[[], Sequence[Path]] = list
        self.run: Any = None
        self.id: str | None = None
        self.total = 0
        self.axis_values = {TOKENS: 0.0, SECONDS: 0.0}
        self.best: dict[str, float] = {}

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """Open the run; a resumed run keeps its id, and ``wandb agent`` gives its jobs an id."""
        del phases
        import wandb

        self.id = self.id or os.environ.get("WANDB_RUN_ID") or secrets.token_hex(4)
        self.total = done
        self.run = wandb.init(
            dir=self.directory,
            project=self.project,
            name=self.run_name,
            group=self.group,
            job_type=self.job_type,
            tags=self.tags,
            config=dict(self.config),
            mode=self._mode(),
            id=self.id,
            resume="allow",
            settings=wandb.Settings(quiet=True),
        )
        for axis in AXES:
            self.run.define_metric(axis, hidden=True)
        self.run.define_metric("*", step_metric=STEPS)

    @staticmethod
    @contextmanager
    def outlive(settings: Mapping[str, Any]) -> Iterator[Callable[[BaseException], None]]:
        """Start W&B's process here, so that it outlives the run's process and loses no rows.

        Yield a function that closes the runs of a process that has died.
        """
        import wandb

        # If a parent process has started W&B's process, the parent ends it.
        starts_service = not os.environ.get("WANDB_SERVICE")
        directory = Path(str(settings["directory"]))
        wandb.setup(settings=wandb.Settings(silent=True))
        error: BaseException | None = None
        try:
            yield partial(_close_open_runs, directory, _folders(directory))
        except BaseException as exception:
            error = exception
            raise
        finally:
            if starts_service:
                wandb.teardown(exit_code=exit_code(error))

    @staticmethod
    def _mode() -> Any:  # noqa: ANN401
        """Return the mode that the user has set, else online with a key and offline without."""
        mode = os.environ.get("WANDB_MODE")
        if mode:
            return mode
        key = os.environ.get("WANDB_API_KEY") or _netrc_key()
        return "online" if key else "offline"

    def log(
        self,
        total: int,
        phase: str,
        step: int,
        metrics: Mapping[str, float],
        samples: Sequence[Sample],
    ) -> None:
        """Log one step on every axis, and a table for each kind of samples."""
        import wandb

        self.total = total
        self.axis_values[TOKENS] += metrics.get("rollout/tokens", 0.0)
        self.axis_values[SECONDS] += metrics.get("time/step", 0.0)
        row: dict[str, Any] = {**metrics, "phase/step": step, STEPS: total, **self.axis_values}
        for kind, table in sample_tables(samples).items():
            row[f"samples/{kind}"] = wandb.Table(
                columns=table.columns, data=table.rows, allow_mixed_types=True
            )
        self.run.log(row, step=total)
        self.run.summary["phase"] = phase
        for name, value in metrics.items():
            self._update_best(name, value)

    def _update_best(self, name: str, value: float) -> None:
        """Update the best value of a held-out metric in the summary; W&B itself keeps the last."""
        direction = better(name)
        if name.startswith(_HELD_OUT) and direction and math.isfinite(value):
            choose = max if direction == "higher" else min
            self.best[name] = choose(value, self.best.get(name, value))
            self.run.summary[f"best/{name.removeprefix(_HELD_OUT)}"] = self.best[name]

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """Write the reason into the run's summary."""
        del total
        self.run.summary[f"ended/{ended['phase']}"] = ended["reason"]

    def position(self) -> dict[str, Any]:
        """Return the run's id, its values on the axes, and its best held-out results."""
        return {"id": self.id, "spent": dict(self.axis_values), "best": dict(self.best)}

    def rewind(self, position: dict[str, Any]) -> None:
        """Restore the values of :meth:`position`; :meth:`start` then continues the W&B run."""
        self.id = position.get("id")
        self.axis_values |= position.get("spent", {})
        self.best = {**position.get("best", {})}

    def finish(self, error: BaseException | None = None) -> None:
        """Close the run with the error's exit code; print the command that uploads an offline run.

        An interrupted run is marked as preempted: W&B gives it to the next agent of its sweep, and
        it continues from its checkpoint.
        """
        if self.run is None:
            return
        try:
            if error is None:
                self._log_report()
        except BaseException as exception:
            error = exception
            raise
        finally:
            self._close(error)

    def _log_report(self) -> None:
        """Log pictures and pages of the report as media, and all files as one artifact."""
        import wandb

        files = [*self.report_files()]
        if not files:
            return
        media: dict[str, Any] = {}
        for file in files:
            if file.suffix == ".png":
                media[f"media/{file.stem}"] = wandb.Image(str(file))
            elif file.suffix == ".html":
                media[f"media/{file.stem}"] = wandb.Html(file.read_text("utf-8"), inject=False)
        self.run.log(media, step=self.total)
        artifact = wandb.Artifact(f"run-{self.id}-report", type="report")
        for file in files:
            artifact.add_file(str(file), policy="immutable")  # W&B need not copy it
        self.run.log_artifact(artifact)

    def _close(self, error: BaseException | None) -> None:
        offline, folder = self.run.settings._offline, self.run.dir
        if error is not None:
            self.run.summary["error"] = f"{type(error).__name__}: {error}"
        if isinstance(error, Interrupted):
            self.run.mark_preempting()
        self.run.finish(exit_code=exit_code(error))
        if offline:
            print(f"W&B offline; upload with: wandb sync {Path(folder).parent}")


def _folders(directory: Path) -> set[Path]:
    """Return W&B's run folders in a run's directory."""
    return {*directory.glob("wandb/*run-*-*")}


def _close_open_runs(directory: Path, before: set[Path], error: BaseException) -> None:
    """Close the runs of a process that has ended: the run folders that are not in ``before``."""
    from wandb.sdk.wandb_init import _attach

    for folder in _folders(directory) - before:
        # Connects this process to a run that W&B's process still holds.
        run = _attach(attach_id=re.sub(r".*run-\d+_\d+-", "", folder.name))
        run.summary["error"] = f"{type(error).__name__}: {error}"
        run.finish(exit_code=exit_code(error))
        if run.settings._offline:
            print(f"W&B offline; upload with: wandb sync {folder}")


def _netrc_key() -> bool:
    """Return whether ``wandb login`` has stored a key."""
    try:
        return netrc.netrc().authenticators("api.wandb.ai") is not None
    except (FileNotFoundError, netrc.NetrcParseError):
        return False


@dataclass(frozen=True)
class SampleTable:
    """Table of samples: columns in order of first appearance, and one row per sample."""

    columns: list[str]
    rows: list[list[object]]


def sample_tables(samples: Sequence[Mapping[str, object]]) -> dict[str, SampleTable]:
    """Return a table for each kind of samples, without columns that are empty in all its samples.

    ``rollouts`` have tokens, ``problems`` counts of answers, ``answers`` a prompt but neither;
    other samples are ``others``.

    Examples:
        >>> tables = sample_tables([{"prompt": "1+1=", "response": "2", "reward": None}])
        >>> tables["answers"]
        SampleTable(columns=['prompt', 'response'], rows=[['1+1=', '2']])
    """
    by_kind: dict[str, list[Mapping[str, object]]] = {}
    for sample in samples:
        by_kind.setdefault(_kind(sample), []).append(sample)
    return {kind: _table(rows) for kind, rows in by_kind.items()}


def _kind(sample: Mapping[str, object]) -> str:
    if "tokens" in sample:
        return "rollouts"
    if "problem" in sample:
        return "problems"
    return "answers" if "prompt" in sample else "others"


def _table(samples: Sequence[Mapping[str, object]]) -> SampleTable:
    keys = dict.fromkeys(key for sample in samples for key in sample)
    columns = [key for key in keys if any(not _empty(sample.get(key)) for sample in samples)]
    return SampleTable(columns, [[sample.get(name) for name in columns] for sample in samples])


def _empty(value: object) -> bool:
    return value is None or (isinstance(value, (list, tuple, dict, str)) and not value)
