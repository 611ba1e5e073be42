"""Resuming: which checkpoint a run goes on from, and that no record of a run is lost over it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from rlcomp.errors import CheckpointError, ConfigError, RlcompWarning
from rlcomp.io.checkpoint import Checkpoint
from rlcomp.io.environment import differences, environment
from rlcomp.io.manifest import CONFIG, written_in
from rlcomp.io.place import check_within
from rlcomp.io.record import OVERWRITTEN, check_record, has_record
from rlcomp.io.saved import Saved, checkpoints_in, newest_whole, open_checkpoint
from rlcomp.io.saved_config import saved_config
from rlcomp.wiring.compare import changed
from rlcomp.wiring.migrations import of_version_0_1, update_classes
from rlcomp.wiring.plan import Plan, read

# The remedy of messages that refuse to go on.
ANEW = f"choose another directory, or overwrite=true, which moves what is there to {OVERWRITTEN}/"


def saved_run(config: DictConfig, checkpoint: Checkpoint | None) -> Saved | None:
    """What to continue from, by ``resume``: auto (the newest, if any), must, never, or a path.

    A run begins at zero only in a directory without a record and without checkpoints, or with
    ``overwrite``.

    Raises:
        CheckpointError: there is nothing to continue from, but there must be; or there is something
            that is not meant, cannot be read or does not fit the record.
        ConfigError: ``overwrite`` would move away what is to be continued.
    """
    saved = _chosen(config, checkpoint)
    if saved is None:
        return None
    _tell_differences(saved)
    return _skip_unused(saved, read(config)[0])


def _skip_unused(saved: Saved, plan: Plan) -> Saved:
    """Skip the state of nodes that this run, or the one that wrote the checkpoint, does not use.

    Checkpoints of 0.2 hold the state of every node of their config. A node that only this run uses
    begins anew.
    """
    stored = saved.nodes()
    unused = _unused(plan) & stored
    if tops := sorted(path for path in unused if path.rpartition(".")[0] not in unused):
        warnings.warn(
            f"{saved.path}: the state of {', '.join(tops)} is left out, for no phase of this run "
            f"uses {'it' if len(tops) == 1 else 'them'}",
            RlcompWarning,
            stacklevel=4,
        )
    file = saved.path / CONFIG
    there = read(update_classes(saved_config(file, trust=True)))[0] if file.is_file() else None
    missing = _unused(there) - stored if there else frozenset[str]()
    return replace(saved, skipped=unused | missing)


def _unused(plan: Plan) -> frozenset[str]:
    return frozenset(plan.nodes.keys() - plan.reached().nodes.keys())


def _tell_differences(saved: Saved) -> None:
    """Warn where the numbers of a continued run need not be those of one that was not stopped."""
    if other := differences(written_in(saved.path), environment()):
        warnings.warn(
            f"{saved.path} was written in another environment ({'; '.join(other)}): "
            "numbers from here on may differ in their last bits",
            RlcompWarning,
            stacklevel=4,
        )


def _chosen(config: DictConfig, checkpoint: Checkpoint | None) -> Saved | None:
    resume, directory = str(config.resume), Path(config.directory)
    home = checkpoint.directory if checkpoint is not None else directory / "checkpoints"
    anew = bool(config.get("overwrite", False))
    if resume not in ("auto", "must", "never"):
        named = elsewhere(Path(resume), directory, home, anew)
        if directory.resolve() not in named.path.resolve().parents:
            _check_left(named, config, resume)
        else:
            _tell_end(named, config)
        return named
    if anew and resume == "must":
        raise ConfigError("overwrite is true, but resume is must: leave one of them out")
    there = [] if anew else checkpoints_in(home)
    if not anew:
        _check_wanted(resume, there, home, directory)
    if not there:
        return None
    saved = _own(there, directory, config)
    _tell_end(saved, config)
    if checkpoint is not None:  # what was passed over is not to be deleted
        passed = there[: there.index(saved.path)]
        checkpoint.readable |= dict.fromkeys(passed, False)
    return saved


def _check_left(saved: Saved, config: DictConfig, resume: str) -> None:
    """Refuse to continue, in another directory, a run that is at its end."""
    if end := _at_end(saved, config):
        done, more = end
        raise CheckpointError(
            f"resume is {resume}: it is at its end ({done}), and nothing would be "
            f"run; {more} goes on with it, base={resume} (without resume) "
            "begins a new run from its weights"
        )


def _at_end(saved: Saved, config: DictConfig) -> tuple[str, str] | None:
    """The steps of the last phase if all are done, and twice as many; None: some are left."""
    phases = [*(config.get("phases") or {}).items()]
    if not phases:  # a program of one's own: its phases are not settings
        return None
    place, (name, last) = saved.place(), phases[-1]
    if place["phase"] < len(phases) - 1 or place["step"] < last.steps:
        return None
    return f"phases.{name}.steps={last.steps}", f"phases.{name}.steps={2 * last.steps}"


def _tell_end(saved: Saved, config: DictConfig) -> None:
    if end := _at_end(saved, config):
        print(
            f"{saved.path}: all steps are done ({end[0]}), and nothing is run; to go on, set "
            f"{end[1]} resume={saved.path}",
            flush=True,
        )


def _check_wanted(resume: str, there: list[Path], home: Path, directory: Path) -> None:
    """Check that what is there may be continued, or that a run may begin where nothing is."""
    if not there and resume == "must":
        raise CheckpointError(
            f"resume is must, but there is no checkpoint in {home}: name the run to continue with "
            "directory=..., or start one with resume=auto"
        )
    if there and resume == "never":
        raise CheckpointError(
            f"resume is never, but {there[0]} is there: {ANEW}, or continue it with resume=auto"
        )
    if not there and has_record(directory):
        raise CheckpointError(
            f"{directory} holds the record of a run without a checkpoint to continue from: {ANEW}"
        )


def _own(there: list[Path], directory: Path, config: DictConfig) -> Saved:
    """The newest checkpoint of a run that can be read, if it was written with this config."""
    try:
        saved = newest_whole(there, with_config=True)
    except CheckpointError as error:
        raise CheckpointError(
            f"{error}; mend what is damaged, take the rlcomp that wrote it, or {ANEW}"
        ) from error
    same_config(saved, config)
    _check_reach(saved, directory)
    # An older one may have been written with another config: that would be another run.
    return replace(saved, older=tuple(path for path in saved.older if _same(path, config)))


def elsewhere(path: Path, directory: Path, home: Path, anew: bool) -> Saved:
    """The checkpoint at a path; refuses to write into another run's directory.

    Args:
        path: of the checkpoint, or of its run.
        directory: of this run.
        home: where this run's checkpoints go.
        anew: what is in the directory is moved aside.

    Raises:
        CheckpointError: there is none, or ``directory`` belongs to another run, or its record does
            not reach as far as the checkpoint.
        ConfigError: the checkpoint would be moved aside.
    """
    try:
        saved = open_checkpoint(path)
    except CheckpointError as error:
        told = f"resume is {path}: {error} (or resume=auto, must, never)"
        raise CheckpointError(told) from error
    if directory.resolve() in saved.path.resolve().parents:
        if anew:
            raise ConfigError(f"overwrite is true, but would move {saved.path}: leave it out")
        _check_reach(saved, directory)
    elif not anew and (has_record(directory) or checkpoints_in(home)):
        raise CheckpointError(
            f"resume is {path}, but {directory} holds the record of another run: {ANEW}"
        )
    # It was named: if it does not fit this run, no other is meant.
    return replace(saved, older=())


def _check_reach(saved: Saved, directory: Path) -> None:
    """Refuse to go on where the record does not reach the checkpoint; name one that it reaches."""
    try:
        check_record(directory, saved.place())
    except CheckpointError as error:
        reached = next((path for path in saved.older if _reached(path, directory)), None)
        told = f"continue from an older checkpoint, resume={reached}, " if reached else ""
        raise CheckpointError(
            f"{saved.path}: {error}; {told}put the record back, go on without it in another "
            f"directory, resume={saved.path} directory=NEW, or {ANEW}"
        ) from error


def _reached(path: Path, directory: Path) -> bool:
    try:
        check_record(directory, open_checkpoint(path).place())
    except CheckpointError:
        return False
    return True


def restored(
    saved: Saved, nodes: Mapping[str, object], seed: int, phases: Mapping[str, int]
) -> tuple[Saved, dict[str, Any], list[Path]]:
    """Restore the newest checkpoint that can be: all of it, and nothing of those passed over.

    Args:
        saved: the newest, with the older ones to be taken in its place.
        nodes: the run's, by name.
        seed: of the run.
        phases: their steps, by name.

    Returns:
        The checkpoint, the position of the run, and those that were passed over, each told by a
        warning.

    Raises:
        CheckpointError: none can be restored.
    """
    passed: list[Path] = []
    while True:
        try:
            check_within(saved.path, saved.place(), phases)
            return saved, saved.restore(nodes, seed), passed
        except CheckpointError as error:
            if not saved.older:
                raise
            warnings.warn(f"passed over: {error}", RlcompWarning, stacklevel=2)
            passed.append(saved.path)
            saved = replace(newest_whole(saved.older), skipped=saved.skipped)


# What may change between a run and its continuation without changing its numbers.
FREE = (
    "accept_changed_files",
    "device",
    "directory",
    "overwrite",
    "parallel",
    "resume",
    "tracker",
    "trust",
)


def _free(path: str) -> bool:
    # trust: that of a soup or a tokenizer as well.
    return path.split(".")[0] in FREE or path.endswith(".trust")


def same_config(saved: Saved, config: DictConfig) -> None:
    """Refuse to resume under a changed config unless allowed.

    Raises:
        CheckpointError: names every value that changed.
    """
    paths = _changes(saved.path, config)
    if paths:
        end = _at_end(saved, config)
        raised = f"; all its steps are done ({end[0]}): raise them as well, {end[1]}" if end else ""
        told = "; ".join(f"{path} was {was}, is {now}" for path, (was, now) in paths.items())
        raise CheckpointError(
            f"{saved.path} is of another config ({told}): {ANEW}, or continue it on purpose with "
            f"resume={saved.path}, which takes the same shapes{raised}"
        )


def _same(path: Path, config: DictConfig) -> bool:
    try:
        return not _changes(path, config)
    except CheckpointError:  # passed over, should its turn come
        return False


def _changes(path: Path, config: DictConfig) -> dict[str, tuple[str, str]]:
    """What changed between the config of a checkpoint and this one, by path."""
    old = update_classes(saved_config(path / CONFIG, trust=True))  # compared, not built
    renamed = of_version_0_1(old)
    if renamed is not None:
        raise CheckpointError(f"{path}: {renamed}; choose another directory")
    return {p: v for p, v in changed(old, config).items() if not _free(p)}
