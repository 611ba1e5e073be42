"""Metric trackers: the interface, and ``JsonLines``, which every run has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rlcomp.errors import CheckpointError, StorageError
from rlcomp.files.atomic_write import sync
from rlcomp.files.digests import RunningDigest, read_digest
from rlcomp.files.json_lines import json_line
from rlcomp.files.run_directory import cut
from rlcomp.files.run_record import ENDED, METRICS, SAMPLES

_PUT_BACK = (
    "another program wrote there; put the record back, or go on from the last checkpoint in "
    "another directory, resume=CHECKPOINT directory=NEW"
)

Sample = Mapping[str, object]


class Tracker(Protocol):
    """Interface of trackers: receives the metrics of every step."""

    name: str

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """Begin a run: the phases with their steps, and the number of steps that are done."""

    def log(
        self,
        total: int,
        phase: str,
        step: int,
        metrics: Mapping[str, float],
        samples: Sequence[Sample],
    ) -> None:
        """Log a step: ``total`` counts over the run, ``step`` in the phase, both from 1."""

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """Log that a phase was ended early after step ``total``.

        Args:
            total: counts over the run, from 1.
            ended: ``phase``, ``step`` of ``steps``, ``reason``, and ``best``: the step of the phase
                that was the best one (``metric``, ``value``, ``step``, ..., ``checkpoint``), or
                None.
        """

    def place(self) -> dict[str, Any]:
        """Return the position of this tracker, for the checkpoint."""

    def rewind(self, place: dict[str, Any]) -> None:
        """Return to the position of the checkpoint."""

    def finish(self, error: BaseException | None = None) -> None:
        """End the run: with every step done, or else by this error."""


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
        self.digests = {METRICS: RunningDigest(), SAMPLES: RunningDigest()}
        self.resumed = False

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """Start empty files; a resumed run appends."""
        del phases, done
        self.metrics.parent.mkdir(parents=True, exist_ok=True)
        self._write_ended()
        if not self.resumed:
            self.digests = {METRICS: RunningDigest(), SAMPLES: RunningDigest()}
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
        """Append one line of metrics, and the samples if there are any.

        Raises:
            StorageError: a file has another size than the run has written.
        """
        place = {"total": total, "phase": phase, "step": step}
        self._append(self.metrics, json_line({**place, **metrics}))
        if samples:
            lines = [json_line({**place, **sample}) for sample in samples]
            self._append(self.samples, "".join(lines))

    def _append(self, path: Path, text: str) -> None:
        digest = self.digests[path.name]
        size = path.stat().st_size if path.is_file() else 0
        # If the directory is gone, opening the file raises.
        if size != digest.size and path.parent.is_dir():
            raise StorageError(_resized(path, size, digest.size))
        with path.open("a") as file:
            file.write(text)
        digest.append(text.encode())

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """Add a line to ``ended.jsonl``."""
        self.rows.append({"total": total, **ended})
        self._write_ended()

    def _write_ended(self) -> None:
        if self.rows:
            self.ended.write_text("".join(map(json_line, self.rows)))
        else:
            self.ended.unlink(missing_ok=True)

    def place(self) -> dict[str, Any]:
        """Return the files' sizes and digests, synced to disk, and the phases that ended early.

        A checkpoint never counts a line that is not on disk. A run that continues in another
        directory needs the phases: the steps that they spared must not count as missing there.
        """
        for path in (self.metrics, self.samples, self.metrics.parent):
            sync(path)
        files = {path.stem: self.digests[path.name] for path in (self.metrics, self.samples)}
        return {
            **{name: digest.size for name, digest in files.items()},
            "digests": {name: [*digest.marks] for name, digest in files.items()},
            "ended": [*self.rows],
        }

    def rewind(self, place: dict[str, Any]) -> None:
        """Cut the files back to the checkpoint.

        Raises:
            CheckpointError: a file is shorter than the checkpoint states, changed, of another run,
                or a folder.
        """
        if self.ended.exists() and not self.ended.is_file():
            raise CheckpointError(f"{self.ended} is no file: move it out of the run's directory")
        self.resumed = True
        self.rows = [*place.get("ended", [])]
        for file in (self.metrics, self.samples):
            marks = place.get("digests", {}).get(file.stem, [])
            self.digests[file.name] = cut(file, place[file.stem], marks)

    def check(self) -> None:
        """Check that the files hold exactly the lines that this run has written.

        Raises:
            StorageError: one was changed in the meantime; names the file and the lines.
        """
        for path in (self.metrics, self.samples):
            digest = self.digests[path.name]
            size = path.stat().st_size if path.is_file() else 0
            if size != digest.size:
                raise StorageError(_resized(path, size, digest.size))
            try:
                read_digest(path, size, digest.marks)
            except CheckpointError as error:
                raise StorageError(f"{error}: {_PUT_BACK}") from error
        written = "".join(map(json_line, self.rows))
        if written != (self.ended.read_text() if self.ended.is_file() else ""):
            raise StorageError(f"{self.ended} is not what the run wrote: {_PUT_BACK}")

    def finish(self, error: BaseException | None = None) -> None:
        """No-op: every line is on disk, and the command line writes the error."""


def _resized(path: Path, size: int, written: int) -> str:
    return f"{path} has {size:,} bytes, but the run has written {written:,}: {_PUT_BACK}"
