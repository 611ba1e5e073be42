"""Metric trackers: the interface, the record of a run, and contexts that start and close them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rlcomp.errors import CheckpointError, StorageError, add_note
from rlcomp.files.atomic_write import sync
from rlcomp.files.digests import RunningDigest, read_digest
from rlcomp.files.json_lines import json_line
from rlcomp.files.run_directory import truncate_record
from rlcomp.files.run_record import ENDED, METRICS, SAMPLES
from rlcomp.files.shared_status import SharedStatus, storage_errors

_REMEDY = (
    "another program wrote there; restore the record, or go on from the last checkpoint in "
    "another directory, resume=CHECKPOINT directory=NEW"
)

# What a step shows as an example, such as a response with its reward, by column.
Sample = Mapping[str, object]


class Tracker(Protocol):
    """Interface of trackers of the metrics of every step."""

    name: str

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """Start a run of phases with their numbers of steps, after ``done`` finished steps."""

    def log(
        self,
        total: int,
        phase: str,
        step: int,
        metrics: Mapping[str, float],
        samples: Sequence[Sample],
    ) -> None:
        """Log a step; ``total`` counts the steps of the run, ``step`` of the phase, from 1."""

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """Log the early end of a phase after step ``total``.

        Args:
            total: counts the steps of the run, from 1.
            ended: ``phase``, ``step`` of ``steps``, ``reason``, and ``best``: the best step of the
                phase (``metric``, ``value``, ``step``, ..., ``checkpoint``), or None.
        """

    def position(self) -> dict[str, Any]:
        """Return the position of this tracker, for the checkpoint."""

    def rewind(self, position: dict[str, Any]) -> None:
        """Return to the position of the checkpoint; called before :meth:`start`."""

    def finish(self, error: BaseException | None = None) -> None:
        """End the run, either complete or by an error."""


class JsonLines:
    """The record of a run in its directory: ``metrics.jsonl`` and ``samples.jsonl``.

    ``ended.jsonl`` lists the phases that were ended early.
    """

    name = "json_lines"

    def __init__(self, *, directory: str) -> None:
        self.metrics = Path(directory) / METRICS
        self.samples = Path(directory) / SAMPLES
        self.ended_file = Path(directory) / ENDED
        self.ended_phases: list[Mapping[str, Any]] = []
        self.digests = {METRICS: RunningDigest(), SAMPLES: RunningDigest()}
        self.resumed = False

    def start(self, phases: Mapping[str, int], done: int) -> None:
        """Create empty files; a resumed run appends."""
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
            StorageError: a file does not have the size that the run has written.
        """
        position = {"total": total, "phase": phase, "step": step}
        self._append(self.metrics, json_line({**position, **metrics}))
        if samples:
            lines = [json_line({**position, **sample}) for sample in samples]
            self._append(self.samples, "".join(lines))

    def _append(self, path: Path, text: str) -> None:
        digest = self.digests[path.name]
        size = path.stat().st_size if path.is_file() else 0
        # If the directory was deleted, opening the file raises.
        if size != digest.size and path.parent.is_dir():
            raise StorageError(_size_fault(path, size, digest.size))
        with path.open("a") as file:
            file.write(text)
        digest.append(text.encode())

    def phase_ended(self, total: int, ended: Mapping[str, Any]) -> None:
        """Add a line to ``ended.jsonl``."""
        self.ended_phases.append({"total": total, **ended})
        self._write_ended()

    def _write_ended(self) -> None:
        if self.ended_phases:
            self.ended_file.write_text("".join(map(json_line, self.ended_phases)))
        else:
            self.ended_file.unlink(missing_ok=True)

    def position(self) -> dict[str, Any]:
        """Return the files' sizes and digests, synced to disk, and the phases that ended early.

        A checkpoint never counts a line that is not on disk. A run that continues in another
        directory needs the phases: the steps that they skipped are not missing there.
        """
        for path in (self.metrics, self.samples, self.metrics.parent):
            sync(path)
        files = {path.stem: self.digests[path.name] for path in (self.metrics, self.samples)}
        return {
            **{name: digest.size for name, digest in files.items()},
            "digests": {name: [*digest.marks] for name, digest in files.items()},
            "ended": [*self.ended_phases],
        }

    def rewind(self, position: dict[str, Any]) -> None:
        """Truncate the files to their lengths at the checkpoint.

        Raises:
            CheckpointError: a file is shorter than at the checkpoint, was changed, is of another
                run, or is a folder.
        """
        if self.ended_file.exists() and not self.ended_file.is_file():
            raise CheckpointError(
                f"{self.ended_file} is not a file: move it out of the run's directory"
            )
        self.resumed = True
        self.ended_phases = [*position.get("ended", [])]
        for file in (self.metrics, self.samples):
            marks = position.get("digests", {}).get(file.stem, [])
            self.digests[file.name] = truncate_record(file, position[file.stem], marks)

    def check(self) -> None:
        """Check that the files hold exactly the lines that this run has written.

        Raises:
            StorageError: a file was changed; the message names the file and the lines.
        """
        for path in (self.metrics, self.samples):
            digest = self.digests[path.name]
            size = path.stat().st_size if path.is_file() else 0
            if size != digest.size:
                raise StorageError(_size_fault(path, size, digest.size))
            try:
                read_digest(path, size, digest.marks)
            except CheckpointError as error:
                raise StorageError(f"{error}: {_REMEDY}") from error
        written = "".join(map(json_line, self.ended_phases))
        if written != (self.ended_file.read_text() if self.ended_file.is_file() else ""):
            raise StorageError(f"{self.ended_file} is not what the run wrote: {_REMEDY}")

    def finish(self, error: BaseException | None = None) -> None:
        """Do nothing: the command line writes the error."""


def _size_fault(path: Path, size: int, written: int) -> str:
    return f"{path} has {size:,} bytes, but the run has written {written:,}: {_REMEDY}"


@contextmanager
def tracker_session(
    trackers: Sequence[Tracker], phases: Mapping[str, int], done: int, status: SharedStatus
) -> Iterator[None]:
    """Start trackers with the arguments of :meth:`Tracker.start`; finish them after the context.

    At the end the record is compared with the written lines. A tracker that cannot finish does not
    hide the error of the run.

    Raises:
        StorageError: the record cannot be written, or was changed during the run.
    """
    started: list[Tracker] = []
    try:
        with storage_errors("the record", status):
            for tracker in trackers:
                started.append(tracker)
                tracker.start(phases, done)
        yield
        for tracker in started:
            if isinstance(tracker, JsonLines):
                tracker.check()
    except BaseException as error:
        for tracker in started:
            try:
                tracker.finish(error)
            except Exception as fault:
                add_note(error, f"tracker {tracker.name}: {type(fault).__name__}: {fault}")
        raise
    for tracker in started:
        tracker.finish(None)


Close = Callable[[BaseException], None]


@runtime_checkable
class Outlives(Protocol):
    """Class of trackers that the supervisor can close after the process of the run has died."""

    def outlive(self, settings: Mapping[str, Any]) -> AbstractContextManager[Close]:
        """Yield a function that closes a dead run's tracker with these ``settings``."""


@contextmanager
def closing_tracker(
    kind: object, settings: Mapping[str, Any], status: SharedStatus
) -> Iterator[None]:
    """Close the tracker of a run whose process dies within the context.

    Args:
        kind: class of the tracker; without the method of :class:`Outlives` nothing is closed.
        settings: arguments of the tracker.
        status: shared status of the run.
    """
    if not isinstance(kind, Outlives):
        yield
        return
    with kind.outlive(settings) as close:
        try:
            yield
        except BaseException as error:
            if not status.outcome():  # a run with an outcome has closed its trackers
                try:
                    close(error)
                except Exception as fault:
                    add_note(error, f"the tracker was not closed: {type(fault).__name__}: {fault}")
            raise
