"""Metric trackers: JSON lines always; Weights & Biases or TensorBoard optionally."""

from __future__ import annotations

import json
import netrc
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rlcomp.errors import exit_code, require
from rlcomp.io.json_lines import finite, json_line
from rlcomp.io.record import ENDED, METRICS, SAMPLES, cut
from rlcomp.io.sync import sync

Sample = Mapping[str, object]


class Tracker(Protocol):
    """Interface of trackers: receives the metrics of every step."""

    name: str

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """The run begins: the phases with their steps, and how many steps are done already."""

    def log(
        self,
        total: int,
        phase: str,
        step: int,
        metrics: Mapping[str, float],
        samples: Sequence[Sample],
    ) -> None:
        """One step is over: ``total`` counts over the run, ``step`` in the phase, both from 1."""

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """A phase was ended early after step ``total``.

        Args:
            total: counts over the run, from 1.
            ended: ``phase``, ``step`` of ``steps``, ``reason``, and ``best``: the step of the phase
                that was the best one (``metric``, ``value``, ``step``, ..., ``checkpoint``), or
                None.
        """

    def place(self) -> dict[str, Any]:
        """The position of this tracker, for the checkpoint."""

    def rewind(self, place: dict[str, Any]) -> None:
        """Return to the position of the checkpoint."""

    def finish(self, error: BaseException | None = None) -> None:
        """The run has ended: with every step done, or else by this error."""


class JsonLines:
    """``metrics.jsonl`` and ``samples.jsonl``: the record of a run, one object a line.

    Phases that were ended early stand in ``ended.jsonl``.

    Args:
        directory: the run's directory.
    """

    name = "json_lines"

    def __init__(self, *, directory: str) -> None:
        self.metrics = Path(directory) / METRICS
        self.samples = Path(directory) / SAMPLES
        self.ended = Path(directory) / ENDED
        self.rows: list[Mapping[str, Any]] = []
        self.resumed = False

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """Start empty files; a resumed run appends."""
        del phases, done
        self.metrics.parent.mkdir(parents=True, exist_ok=True)
        self._write_ended()
        if not self.resumed:
            self.metrics.write_text("")
            self.samples.write_text("")

    def log(
        self,
        total: int,
        phase: str,
        step: int,
        metrics: Mapping[str, float],
        samples: Sequence[Sample],
    ) -> None:
        """Append one line of metrics, and the samples if there are any."""
        place = {"total": total, "phase": phase, "step": step}
        with self.metrics.open("a") as file:
            file.write(json_line({**place, **metrics}))
        if samples:
            with self.samples.open("a") as file:
                file.writelines(json_line({**place, **sample}) for sample in samples)

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """One line more."""
        self.rows.append({"total": total, **ended})
        self._write_ended()

    def _write_ended(self) -> None:
        if self.rows:
            self.ended.write_text("".join(map(json_line, self.rows)))
        else:
            self.ended.unlink(missing_ok=True)

    def place(self) -> dict[str, Any]:
        """The files' lengths, once they are on disk, and the phases that were ended early.

        A checkpoint that tells of a line is never there without it. Whoever goes on in another
        directory needs the phases: the steps that they have spared are not missing there either.
        """
        for path in (self.metrics, self.samples, self.metrics.parent):
            sync(path)
        sizes = {"metrics": self.metrics.stat().st_size, "samples": self.samples.stat().st_size}
        return {**sizes, "ended": [*self.rows]}

    def rewind(self, place: dict[str, Any]) -> None:
        """Cut the files back to the checkpoint.

        Raises:
            CheckpointError: a file is shorter than the checkpoint tells, or another run's.
        """
        self.resumed = True
        self.rows = [*place.get("ended", [])]
        for file, size in ((self.metrics, place["metrics"]), (self.samples, place["samples"])):
            cut(file, size)

    def finish(self, error: BaseException | None = None) -> None:
        """Every line is on disk already, and an error is kept by the command line."""


class WandB:
    """Weights & Biases; offline when there is no key.

    Args:
        directory: the run's directory.
        project: W&B project.
        group: runs that belong together, usually a sweep.
        job_type: what is varied within the group.
        tags: choices of this run.
        config: the run's config, shown with it.
    """

    name = "wandb"

    def __init__(
        self,
        *,
        directory: str,
        project: str,
        group: str | None,
        job_type: str | None,
        tags: list[str],
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        self.project = project
        self.group = group
        self.job_type = job_type
        self.tags = tags
        self.config = config
        self.run: Any = None
        self.id: str | None = None

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """Open the run; a resumed one keeps its id."""
        del phases, done
        import wandb

        self.id = self.id or secrets.token_hex(4)
        self.run = wandb.init(
            dir=self.directory,
            project=self.project,
            group=self.group,
            job_type=self.job_type,
            tags=self.tags,
            config=dict(self.config or {}),
            mode=self._mode(),
            id=self.id,
            resume="allow",
            settings=wandb.Settings(quiet=True),
        )

    @staticmethod
    def _mode() -> Any:  # noqa: ANN401
        """What the user set, else online with a key and offline without."""
        chosen = os.environ.get("WANDB_MODE")
        if chosen:
            return chosen
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
        """Log one step; samples become a table."""
        import wandb

        row: dict[str, Any] = {**metrics, "phase/step": step}
        if samples:
            columns = list(dict.fromkeys(column for sample in samples for column in sample))
            data = [[sample.get(column) for column in columns] for sample in samples]
            table = wandb.Table(columns=columns, data=data)
            row["samples"] = table
        self.run.log(row, step=total)
        self.run.summary["phase"] = phase

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """The reason stands in the run's summary."""
        del total
        self.run.summary[f"ended/{ended['phase']}"] = ended["reason"]

    def place(self) -> dict[str, Any]:
        """The run's id."""
        return {"id": self.id}

    def rewind(self, place: dict[str, Any]) -> None:
        """Continue the same run; steps are passed explicitly, metrics.jsonl stays the truth."""
        self.id = place.get("id")

    def finish(self, error: BaseException | None = None) -> None:
        """Close the run, with the error's exit code; say how an offline one is uploaded."""
        if self.run is not None:
            offline, folder = self.run.settings._offline, self.run.dir
            if error is not None:
                self.run.summary["error"] = f"{type(error).__name__}: {error}"
            self.run.finish(exit_code=exit_code(error))
            if offline:
                print(f"W&B offline; upload with: wandb sync {Path(folder).parent}")


def _netrc_key() -> bool:
    """Whether ``wandb login`` left a key."""
    try:
        return netrc.netrc().authenticators("api.wandb.ai") is not None
    except (FileNotFoundError, netrc.NetrcParseError):
        return False


class TensorBoard:
    """TensorBoard event files under ``directory/tensorboard`` (extra ``plots``).

    Args:
        directory: the run's directory.
    """

    name = "tensorboard"

    def __init__(self, *, directory: str) -> None:
        self.directory = directory
        require("tensorboard", "plots")
        self.writer: Any = None

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """Open the event file; a resumed run purges what came after its checkpoint."""
        del phases
        from torch.utils.tensorboard import SummaryWriter

        where = str(Path(self.directory) / "tensorboard")
        self.writer = SummaryWriter(where, purge_step=done + 1 if done else None)

    def log(
        self,
        total: int,
        phase: str,
        step: int,
        metrics: Mapping[str, float],
        samples: Sequence[Sample],
    ) -> None:
        """Log one step."""
        del phase, step
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, total)
        if samples:
            told = json.dumps([finite(sample) for sample in samples], indent=1)
            self.writer.add_text("samples", told, total)

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """The reason stands among the texts."""
        self.writer.add_text(f"ended/{ended['phase']}", str(ended["reason"]), total)

    def place(self) -> dict[str, Any]:
        """Nothing: steps are passed explicitly."""
        return {}

    def rewind(self, place: dict[str, Any]) -> None:
        """Nothing to do: ``start`` purges."""

    def finish(self, error: BaseException | None = None) -> None:
        """An error stands among the texts; flush and close."""
        if self.writer is not None:
            if error is not None:
                self.writer.add_text("error", f"{type(error).__name__}: {error}")
            self.writer.close()
