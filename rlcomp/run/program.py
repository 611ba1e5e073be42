"""Loop of a run over stages, metrics and checkpoints; it contains no reinforcement learning."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch import nn

from rlcomp.checkpoint.best import best_checkpoint, retain_best, save_best
from rlcomp.checkpoint.dump import write_dump
from rlcomp.checkpoint.reader import SavedCheckpoint, restore_newest
from rlcomp.checkpoint.state import check_saved
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.engine.finite import first_non_finite
from rlcomp.errors import (
    CheckpointError,
    ConfigError,
    Interrupted,
    NonFiniteSteps,
    NoRows,
    NumericalError,
    ProcessEnded,
    RlcompWarning,
    add_note,
    refuse_exit,
)
from rlcomp.files.digests import Digests
from rlcomp.files.shared_status import SharedStatus, storage_errors
from rlcomp.metrics import Ledger, recording
from rlcomp.run.check_flow import check_built_flow
from rlcomp.run.phase import NamedStages, Phase
from rlcomp.run.remote import RemoteStages
from rlcomp.run.signals import StopRequest
from rlcomp.run.stages import Nothing, empty_batch
from rlcomp.seed import named_seed, seed_globals
from rlcomp.trackers.tracker import Tracker, tracker_session
from rlcomp.workers.pool import closing


class Program:
    """Loop that runs phases to their end; :func:`run_phases` describes the arguments."""

    def __init__(
        self,
        phases: Mapping[str, Phase],
        *,
        nodes: Mapping[str, object],
        seed: int,
        trackers: Sequence[Tracker] = (),
        checkpoint: Checkpoint | None = None,
        status: SharedStatus | None = None,
        inputs: Digests | None = None,
    ) -> None:
        if not phases:
            raise ConfigError("phases is empty: a run needs at least one phase")
        check_built_flow(phases, nodes)
        if checkpoint is not None:
            check_saved((m for phase in phases.values() for m in phase.all_modules()), nodes)
        self.phases = dict(phases)
        self.steps = {name: phase.steps for name, phase in phases.items()}
        self.nodes = dict(nodes)
        self.names = {
            id(node): node.path if isinstance(node, RemoteStages) else path
            for path, node in self.nodes.items()
        }
        self.seed = seed
        self.trackers = list(trackers)
        self.checkpoint = checkpoint
        # Index of the phase; finished steps of the phase, and of the run.
        self.phase, self.step, self.total = 0, 0, 0
        self.phases_without_rows: set[str] = set()  # a warning is given once for each
        self.last_saved_step = 0  # number of steps at the last checkpoint
        self.best: dict[str, dict[str, Any]] = {}  # the best step of each phase that names one
        self.status = status or SharedStatus()
        self.inputs = {} if inputs is None else {"inputs": inputs}
        self.stop = StopRequest(self.status)

    def run(self, saved: SavedCheckpoint | None = None) -> None:
        """Run the remaining steps."""
        # The numbers of a run do not depend on which node was built last.
        seed_globals(named_seed(self.seed, "run"))
        source = None if saved is None else self._resume(saved)
        if self.checkpoint is not None:
            retain_best(self.checkpoint, self.best.values(), source.path if source else None)
            if source is not None:
                with storage_errors("the checkpoints", self.status):
                    self.checkpoint.tidy(source.path)
        with (
            closing(self.nodes.values()),
            self.stop.listening(),
            tracker_session(self.trackers, self.steps, self.total, self.status),
        ):
            for index, (name, phase) in enumerate(self.phases.items()):
                if index >= self.phase:
                    self._run_phase(name, phase)

    def _resume(self, saved: SavedCheckpoint) -> SavedCheckpoint:
        """Restore the newest intact checkpoint, and return it."""
        saved, position, skipped = restore_newest(saved, self.nodes, self.seed, self.steps)
        if self.checkpoint is not None:
            self.checkpoint.readable |= dict.fromkeys(skipped, False)
        self.phase, self.step, self.total = position["phase"], position["step"], position["total"]
        self.best = position.get("best", {})
        for tracker in self.trackers:
            if tracker.name in position["trackers"]:
                tracker.rewind(position["trackers"][tracker.name])
        return saved

    def _run_phase(self, name: str, phase: Phase) -> None:
        index = self.phase
        if self.step == 0:
            self._report_position(name, "the beginning of the phase")
            with torch.no_grad():
                for action in (*phase.on_begin, *phase.components()):
                    action.begin_phase()
        while self.phase == index and self.step < phase.steps:
            self._one_step(name, phase)
            if self.stop.requested:
                self._interrupt(name)
        self.phase, self.step = index + 1, 0

    def _one_step(self, name: str, phase: Phase) -> None:
        progress = (self.step + 1) / (phase.steps + 1)
        with recording(progress=progress, step=self.total) as ledger, torch.no_grad():
            batch, complete = self._run_stages(name, phase, ledger)
            due = self._run_periodic(name, phase.due(self.step + 1), batch, complete, ledger)
            end_reason = ledger.ended if self.step + 1 < phase.steps else None
            if end_reason is not None:  # nodes for the end of a phase run now
                others = [entry for entry in phase.due(phase.steps) if entry not in due]
                self._run_periodic(name, others, batch, complete, ledger)
            if end_reason is not None or self.step + 1 == phase.steps:
                self._report_position(name, "the end of the phase")
                for component in phase.components():
                    component.finish_phase()
        self.step, self.total = self.step + 1, self.total + 1
        with storage_errors("the metrics", self.status):
            for tracker in self.trackers:
                tracker.log(self.total, name, self.step, ledger.means(), ledger.samples)
        if ledger.best is not None:
            self._save_best(name, ledger.best)
        if end_reason is not None:
            self._end_early(name, phase, end_reason)
        elif any(stage is self.checkpoint for _, stage in due):
            self._save()

    def _run_periodic(
        self, name: str, nodes: NamedStages, batch: TensorDict, complete: bool, ledger: Ledger
    ) -> NamedStages:
        """Run periodic nodes except the checkpoint; return them, and the checkpoint.

        After an incomplete step, these are the nodes whose keys exist.
        """
        if not complete:
            keys = {*batch.keys(True)}
            nodes = [entry for entry in nodes if {*getattr(entry[1], "in_keys", ())} <= keys]
        for node, stage in nodes:
            if not isinstance(stage, Checkpoint):
                self._call(name, node, stage, batch.copy(), ledger)
        return nodes

    def _save_best(self, name: str, best: dict[str, object]) -> None:
        self.best[name] = {**best, "phase": name, "step": self.step, "total": self.total}
        if self.checkpoint is not None:
            with storage_errors("the best checkpoint", self.status):
                save_best(self.checkpoint, self.nodes, self._position(), [*self.best.values()])

    def _end_early(self, name: str, phase: Phase, reason: str) -> None:
        """End the phase, so that a run that continues from here does not resume it."""
        best = self.best.get(name)
        if best is not None:
            best = {**best, "checkpoint": best_checkpoint(self.checkpoint, best)}
        summary = {"phase": name, "step": self.step, "steps": phase.steps, "reason": reason}
        with storage_errors("the early end", self.status):
            for tracker in self.trackers:
                tracker.phase_ended(self.total, {**summary, "best": best})
        self.phase, self.step = self.phase + 1, 0
        self._save()

    def _run_stages(self, phase_name: str, phase: Phase, ledger: Ledger) -> tuple[TensorDict, bool]:
        """Run the stages; return the batch, and True if every stage has run on it."""
        batch, start, complete = empty_batch(), time.perf_counter(), True
        try:
            for index, stage in enumerate(phase.at(self.step + 1)):
                node = self.names.get(id(stage), f"{index}")
                batch = self._call(phase_name, node, stage, batch, ledger)
        except NoRows as error:
            complete = False
            ledger.add_total("skipped_steps", 1.0)
            if phase_name not in self.phases_without_rows:
                self.phases_without_rows.add(phase_name)
                warnings.warn(
                    f"phase {phase_name}: step {self.step + 1} is skipped, as are all later steps "
                    f"without rows (skipped_steps in metrics.jsonl counts them): {error}",
                    RlcompWarning,
                    stacklevel=2,
                )
        ledger.add("time/step", time.perf_counter() - start, 1)
        return batch, complete

    def _call(
        self, phase: str, node: str, stage: nn.Module, batch: TensorDict, ledger: Ledger
    ) -> TensorDict:
        start, kind = time.perf_counter(), type(stage).__name__
        self._report_position(phase, f"{node} ({kind})")
        try:
            with refuse_exit(f"{node} ({kind})", ProcessEnded):
                result: TensorDict = stage(batch)
        except BaseException as error:
            if isinstance(error, NonFiniteSteps):
                add_note(error, self._dump(error, ledger))
            elif isinstance(error, NumericalError) and (bad := first_non_finite(batch)):
                add_note(error, f"the first bad key of the batch: {bad}")
            add_note(
                error,
                f"in stage '{node}' ({kind}), phase '{phase}', step {self.step + 1}; "
                f"batch {tuple(batch.batch_size)} with keys {sorted(map(str, batch.keys()))}",
            )
            raise
        if not isinstance(stage, Nothing):  # an empty slot has no time of its own
            ledger.add(f"time/{node}", time.perf_counter() - start, 1)
        return result

    def _dump(self, error: NonFiniteSteps, ledger: Ledger) -> str:
        """Save the last non-finite step for ``rlcomp-replay``; return a message with its file."""
        if self.checkpoint is None:
            return "the step is not saved: the run has no checkpoint"
        node = self.names.get(id(error.learner), "learner")
        position, progress = self._position(), ledger.progress
        try:
            file = write_dump(self.checkpoint, node, error.learner, error.batch, position, progress)
        except CheckpointError as failed:
            return f"the step is not saved: {failed}"
        return f"the step is saved; repeat it with: rlcomp-replay {file}"

    def _save(self) -> None:
        if self.checkpoint is not None and self.last_saved_step != self.total:
            with storage_errors("the checkpoint", self.status):
                self.checkpoint.save(self.nodes, self._position())
            self.last_saved_step = self.total

    def _report_position(self, phase: str, stage: str) -> None:
        self.status.set_position(phase, self.step + 1, self.steps[phase], stage)

    def _position(self) -> dict[str, Any]:
        position = {"phase": self.phase, "step": self.step, "total": self.total, "seed": self.seed}
        trackers = {tracker.name: tracker.position() for tracker in self.trackers}
        return {**position, "trackers": trackers, "best": self.best, **self.inputs}

    def _interrupt(self, name: str) -> None:
        self._save()
        state = "saved" if self.checkpoint is not None else "not saved: the run has no checkpoint"
        where = f"after step {self.step}" if self.step else "at its end"
        raise Interrupted(f"stopped in phase {name} {where}, {state}")


def run_phases(
    phases: Mapping[str, Phase],
    *,
    nodes: Mapping[str, object],
    seed: int,
    trackers: Sequence[Tracker] = (),
    checkpoint: Checkpoint | None = None,
    saved: SavedCheckpoint | None = None,
    status: SharedStatus | None = None,
    inputs: Digests | None = None,
) -> None:
    """Run phases of stages, as the command line does with a built config.

    Args:
        phases: phases by name, in order.
        nodes: objects by name (``Make.nodes``). Checkpoints hold their state, and errors use the
            names.
        seed: the run's seed.
        trackers: receive metrics and samples.
        checkpoint: saves the run at the steps of a phase's ``every`` that names it, and at the end
            of this phase; and when the run is stopped or a stage ends its phase early.
        saved: a checkpoint; the run continues bit-identically from it.
        status: shared memory to which the run writes its position.
        inputs: digests of the input files, for the run's checkpoints.

    Raises:
        ConfigError: the phases are empty, or their stages do not fit together.
        Interrupted: stopped by SIGINT or SIGTERM after a whole step, and saved.
        StorageError: the record or a checkpoint cannot be written.
    """
    program = Program(
        phases,
        nodes=nodes,
        seed=seed,
        trackers=trackers,
        checkpoint=checkpoint,
        status=status,
        inputs=inputs,
    )
    program.run(saved)
