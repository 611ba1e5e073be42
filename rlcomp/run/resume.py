"""Resuming: the choice of the checkpoint, and protection of earlier records."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from rlcomp.checkpoint.manifest import CONFIG, written_in
from rlcomp.checkpoint.progress import check_within
from rlcomp.checkpoint.reader import SavedCheckpoint, checkpoints_in, newest_whole, open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.config.compare import changed
from rlcomp.config.migrations import of_version_0_1, update_classes
from rlcomp.config.plan import Plan, read
from rlcomp.errors import CheckpointError, ConfigError, RlcompWarning
from rlcomp.files.environment import differences, environment
from rlcomp.files.run_directory import OVERWRITTEN, check_record
from rlcomp.files.run_record import has_record
from rlcomp.files.untrusted import read_saved_config

# Remedy in messages that refuse to continue.
ANEW = f"choose another directory, or overwrite=true, which moves what is there to {OVERWRITTEN}/"


def saved_run(config: DictConfig, checkpoint: Checkpoint | None) -> SavedCheckpoint | None:
    """Return the checkpoint by ``resume``: auto (the newest, if any), must, never, or a path.

    A run begins at zero only in a directory without a record and without checkpoints, or with
    ``overwrite``.

    Raises:
        CheckpointError: there is no checkpoint although there must be one; or there is one that is
            not meant, cannot be read or does not fit the record.
        ConfigError: ``overwrite`` would move away the checkpoint to continue.
    """
    source = _chosen(config, checkpoint)
    if source is None:
        return None
    _tell_differences(source)
    return _skip_unused(source, read(config)[0])


def _skip_unused(saved: SavedCheckpoint, plan: Plan) -> SavedCheckpoint:
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
    there = read(update_classes(read_saved_config(file, trust=True)))[0] if file.is_file() else None
    missing = _unused(there) - stored if there else frozenset[str]()
    return replace(saved, skipped=unused | missing)


def _unused(plan: Plan) -> frozenset[str]:
    return frozenset(plan.nodes.keys() - plan.reached().nodes.keys())


def _tell_differences(saved: SavedCheckpoint) -> None:
    """Warn if the numbers of a continued run may differ from an uninterrupted run."""
    if other := differences(written_in(saved.path), environment()):
        warnings.warn(
            f"{saved.path} was written in another environment ({'; '.join(other)}): "
            "numbers from here on may differ in their last bits",
            RlcompWarning,
            stacklevel=4,
        )


def _chosen(config: DictConfig, checkpoint: Checkpoint | None) -> SavedCheckpoint | None:
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
    source = _own(there, directory, config)
    _tell_end(source, config)
    if checkpoint is not None:  # skipped checkpoints must not be deleted
        passed = there[: there.index(source.path)]
        checkpoint.readable |= dict.fromkeys(passed, False)
    return source


def _check_left(saved: SavedCheckpoint, config: DictConfig, resume: str) -> None:
    """Refuse to continue a finished run in another directory."""
    if end := _at_end(saved, config):
        done, more = end
        raise CheckpointError(
            f"resume is {resume}: it is at its end ({done}), and nothing would be "
            f"run; {more} goes on with it, base={resume} (without resume) "
            "begins a new run from its weights"
        )


def _at_end(saved: SavedCheckpoint, config: DictConfig) -> tuple[str, str] | None:
    """Return the last phase's steps and twice as many if all are done; None otherwise."""
    phases = [*(config.get("phases") or {}).items()]
    if not phases:  # a custom program: its phases are not settings
        return None
    place, (name, last) = saved.place(), phases[-1]
    if place["phase"] < len(phases) - 1 or place["step"] < last.steps:
        return None
    return f"phases.{name}.steps={last.steps}", f"phases.{name}.steps={2 * last.steps}"


def _tell_end(saved: SavedCheckpoint, config: DictConfig) -> None:
    if end := _at_end(saved, config):
        print(
            f"{saved.path}: all steps are done ({end[0]}), and nothing is run; to go on, set "
            f"{end[1]} resume={saved.path}",
            flush=True,
        )


def _check_wanted(resume: str, there: list[Path], home: Path, directory: Path) -> None:
    """Check that the checkpoints may be continued, or that a run may begin without any."""
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


def _own(there: list[Path], directory: Path, config: DictConfig) -> SavedCheckpoint:
    """Return the newest readable checkpoint of a run if it was written with this config."""
    try:
        source = newest_whole(there, with_config=True)
    except CheckpointError as error:
        raise CheckpointError(
            f"{error}; mend what is damaged, take the rlcomp that wrote it, or {ANEW}"
        ) from error
    same_config(source, config)
    _check_reach(source, directory)
    # An older one may have been written with another config: that would be another run.
    return replace(source, older=tuple(path for path in source.older if _same(path, config)))


def elsewhere(path: Path, directory: Path, home: Path, anew: bool) -> SavedCheckpoint:
    """Return the checkpoint at a path; refuse to write into another run's directory.

    Args:
        path: path of the checkpoint, or of its run.
        directory: directory of this run.
        home: folder of this run's checkpoints.
        anew: True to move the contents of the directory aside.

    Raises:
        CheckpointError: there is none, or ``directory`` belongs to another run, or its record ends
            before the checkpoint.
        ConfigError: the checkpoint would be moved aside.
    """
    try:
        source = open_checkpoint(path)
    except CheckpointError as error:
        message = f"resume is {path}: {error} (or resume=auto, must, never)"
        raise CheckpointError(message) from error
    if directory.resolve() in source.path.resolve().parents:
        if anew:
            raise ConfigError(f"overwrite is true, but would move {source.path}: leave it out")
        _check_reach(source, directory)
    elif not anew and (has_record(directory) or checkpoints_in(home)):
        raise CheckpointError(
            f"resume is {path}, but {directory} holds the record of another run: {ANEW}"
        )
    # It was named explicitly: do not fall back to another one.
    return replace(source, older=())


def _check_reach(saved: SavedCheckpoint, directory: Path) -> None:
    """Refuse a checkpoint beyond the end of the record; name an earlier one if there is any."""
    try:
        check_record(directory, saved.place())
    except CheckpointError as error:
        reached = next((path for path in saved.older if _reached(path, directory)), None)
        remedy = f"continue from an older checkpoint, resume={reached}, " if reached else ""
        raise CheckpointError(
            f"{saved.path}: {error}; {remedy}put the record back, go on without it in another "
            f"directory, resume={saved.path} directory=NEW, or {ANEW}"
        ) from error


def _reached(path: Path, directory: Path) -> bool:
    try:
        check_record(directory, open_checkpoint(path).place())
    except CheckpointError:
        return False
    return True


def restored(
    saved: SavedCheckpoint, nodes: Mapping[str, object], seed: int, phases: Mapping[str, int]
) -> tuple[SavedCheckpoint, dict[str, Any], list[Path]]:
    """Restore the newest intact checkpoint completely, and nothing of skipped ones.

    Args:
        saved: the newest one, with older ones as alternatives.
        nodes: the run's nodes, by name.
        seed: seed of the run.
        phases: steps of the phases, by name.

    Returns:
        The checkpoint, the position of the run, and the skipped checkpoints, each with a warning.

    Raises:
        CheckpointError: none can be restored.
    """
    candidate = saved
    passed: list[Path] = []
    while True:
        try:
            check_within(candidate.path, candidate.place(), phases)
            return candidate, candidate.restore(nodes, seed), passed
        except CheckpointError as error:
            if not candidate.older:
                raise
            warnings.warn(f"passed over: {error}", RlcompWarning, stacklevel=2)
            passed.append(candidate.path)
            candidate = replace(newest_whole(candidate.older), skipped=candidate.skipped)


# Settings that may change between a run and its continuation without changing its numbers.
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
    # A soup and a tokenizer have a trust of their own.
    return path.split(".")[0] in FREE or path.endswith(".trust")


def same_config(saved: SavedCheckpoint, config: DictConfig) -> None:
    """Refuse to resume under a changed config unless allowed.

    Raises:
        CheckpointError: the config changed; the message names every changed value.
    """
    paths = _changes(saved.path, config)
    if paths:
        end = _at_end(saved, config)
        hint = f"; all its steps are done ({end[0]}): raise them as well, {end[1]}" if end else ""
        changed_values = "; ".join(
            f"{path} was {was}, is {now}" for path, (was, now) in paths.items()
        )
        raise CheckpointError(
            f"{saved.path} is of another config ({changed_values}): {ANEW}, or continue it on "
            f"purpose with resume={saved.path}, which takes the same shapes{hint}"
        )


def _same(path: Path, config: DictConfig) -> bool:
    try:
        return not _changes(path, config)
    except CheckpointError:  # skipped when its turn comes
        return False


def _changes(path: Path, config: DictConfig) -> dict[str, tuple[str, str]]:
    """Return the changes between the config of a checkpoint and this one, by path."""
    old = update_classes(read_saved_config(path / CONFIG, trust=True))  # compared, not built
    fault = of_version_0_1(old)
    if fault is not None:
        raise CheckpointError(f"{path}: {fault}; choose another directory")
    return {p: v for p, v in changed(old, config).items() if not _free(p)}
