"""Metric trackers: their interface, and the one of every run, JSON lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rlcomp.io.json_lines import json_line
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
