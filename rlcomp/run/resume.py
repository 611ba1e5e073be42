"""Resuming: the choice of the checkpoint, and protection of earlier records."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig

from rlcomp.checkpoint.manifest import CONFIG, read_environment
from rlcomp.checkpoint.reader import (
    SavedCheckpoint,
    list_checkpoints,
    newest_readable,
    open_checkpoint,
)
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.config.compare import config_differences
from rlcomp.config.migrations import update_classes, version_0_1_message
from rlcomp.config.plan import Plan, read
from rlcomp.errors import CheckpointError, ConfigError, RlcompWarning
from rlcomp.files.environment import differences, environment
from rlcomp.files.run_directory import OVERWRITTEN, check_record
from rlcomp.files.run_record import has_metrics
from rlcomp.files.untrusted import read_saved_config

# Remedy in messages that refuse to continue.
START_ANEW_REMEDY = (
    f"choose another directory, or overwrite=true, which moves what is there to {OVERWRITTEN}/"
)


def checkpoint_to_resume(config: DictConfig, writer: Checkpoint | None) -> SavedCheckpoint | None:
    """Return the checkpoint that ``resume`` chooses; None to begin at step 0.

    ``auto``: the newest of this run, if any. ``must``: the newest; refuse to begin without one.
    ``never``: none; refuse to begin where there is one. Otherwise ``resume`` is the path of one.

    A run begins at step 0 only in a directory without metrics and without checkpoints, or with
    ``overwrite``. Warns of a checkpoint of another environment, and of state that is left out.

    Args:
        config: config of the run.
        writer: the part that writes the run's checkpoints; None if it has no such part.

    Raises:
        CheckpointError: there is no checkpoint although there must be one; or there is one that
            ``resume`` forbids, that cannot be read or that does not fit the record.
        ConfigError: ``overwrite`` would move away the checkpoint to continue.
    """
    source = _choose_checkpoint(config, writer)
    if source is None:
        return None
    if environment_changes := differences(read_environment(source.path), environment()):
        warnings.warn(
            f"{source.path} was written in another environment ({'; '.join(environment_changes)}): "
            "numbers from here on may differ in their last bits",
            RlcompWarning,
            stacklevel=3,
        )
    return _skip_unused(source, read(config)[0])


def _skip_unused(saved: SavedCheckpoint, plan: Plan) -> SavedCheckpoint:
    """Skip the state of nodes that this run, or the one that wrote the checkpoint, does not use.

    Checkpoints of 0.2 hold the state of every node of their config. A node that only this run uses
    begins anew.
    """
    stored = saved.nodes()
    unused = _unused_paths(plan) & stored
    if tops := sorted(path for path in unused if path.rpartition(".")[0] not in unused):
        warnings.warn(
            f"{saved.path}: the state of {', '.join(tops)} is left out, for no phase of this run "
            f"uses {'it' if len(tops) == 1 else 'them'}",
            RlcompWarning,
            stacklevel=4,
        )
    file = saved.path / CONFIG
    saved_plan = (
        read(update_classes(read_saved_config(file, trust=True)))[0] if file.is_file() else None
    )
    missing = _unused_paths(saved_plan) - stored if saved_plan else frozenset[str]()
    return replace(saved, skipped_nodes=unused | missing)


def _unused_paths(plan: Plan) -> frozenset[str]:
    return frozenset(plan.nodes.keys() - plan.reached().nodes.keys())


def _choose_checkpoint(config: DictConfig, writer: Checkpoint | None) -> SavedCheckpoint | None:
    """Return the checkpoint that ``resume`` chooses, as :func:`checkpoint_to_resume` describes."""
    resume, directory = str(config.resume), Path(config.directory)
    home = writer.directory if writer is not None else directory / "checkpoints"
    overwrite = bool(config.get("overwrite", False))
    if resume not in ("auto", "must", "never"):
        checkpoint_at_path = checkpoint_at(Path(resume), directory, home, overwrite)
        if directory.resolve() not in checkpoint_at_path.path.resolve().parents:
            _check_unfinished(checkpoint_at_path, config, resume)
        else:
            _print_if_finished(checkpoint_at_path, config)
        return checkpoint_at_path
    if overwrite and resume == "must":
        raise ConfigError("overwrite is true, but resume is must: leave one of them out")
    checkpoints = [] if overwrite else list_checkpoints(home)
    if not overwrite:
        _check_resume_mode(resume, checkpoints, home, directory)
    if not checkpoints:
        return None
    source = _newest_of_run(checkpoints, directory, config)
    _print_if_finished(source, config)
    if writer is not None:  # it deletes readable checkpoints only: keep the skipped ones
        skipped = checkpoints[: checkpoints.index(source.path)]
        writer.readable |= dict.fromkeys(skipped, False)
    return source


def _check_unfinished(saved: SavedCheckpoint, config: DictConfig, resume: str) -> None:
    """Refuse to continue a finished run in another directory."""
    if end := _end_settings(saved, config):
        done, more = end
        raise CheckpointError(
            f"resume is {resume}: it is at its end ({done}), and nothing would be run; {more} goes "
            f"on with it, base={resume} (without resume) begins a new run from its weights"
        )


def _end_settings(saved: SavedCheckpoint, config: DictConfig) -> tuple[str, str] | None:
    """Return the override with the last phase's steps, and one with twice as many.

    None if not all steps are done.
    """
    phases = [*(config.get("phases") or {}).items()]
    if not phases:  # a custom program
        return None
    place, (name, last) = saved.position(), phases[-1]
    if place["phase"] < len(phases) - 1 or place["step"] < last.steps:
        return None
    return f"phases.{name}.steps={last.steps}", f"phases.{name}.steps={2 * last.steps}"


def _print_if_finished(saved: SavedCheckpoint, config: DictConfig) -> None:
    if end := _end_settings(saved, config):
        print(
            f"{saved.path}: all steps are done ({end[0]}), and nothing is run; to go on, set "
            f"{end[1]} resume={saved.path}",
            flush=True,
        )


def _check_resume_mode(resume: str, checkpoints: list[Path], home: Path, directory: Path) -> None:
    """Check that the checkpoints may be continued, or that a run may begin without any."""
    if not checkpoints and resume == "must":
        raise CheckpointError(
            f"resume is must, but there is no checkpoint in {home}: name the run to continue with "
            "directory=..., or start one with resume=auto"
        )
    if checkpoints and resume == "never":
        raise CheckpointError(
            f"resume is never, but {checkpoints[0]} is there: {START_ANEW_REMEDY}, or continue it "
            "with resume=auto"
        )
    if not checkpoints and has_metrics(directory):
        raise CheckpointError(
            f"{directory} holds the record of a run without a checkpoint to continue from: "
            f"{START_ANEW_REMEDY}"
        )


def _newest_of_run(checkpoints: list[Path], directory: Path, config: DictConfig) -> SavedCheckpoint:
    """Return the newest readable checkpoint of a run if it was written with this config."""
    try:
        source = newest_readable(checkpoints, with_config=True)
    except CheckpointError as error:
        raise CheckpointError(
            f"{error}; mend what is damaged, take the rlcomp that wrote it, or {START_ANEW_REMEDY}"
        ) from error
    check_same_config(source, config)
    _check_record_reaches(source, directory)
    # An older one may have been written with another config: that would be another run.
    return replace(
        source, older=tuple(path for path in source.older if _has_same_config(path, config))
    )


def checkpoint_at(path: Path, directory: Path, home: Path, overwrite: bool) -> SavedCheckpoint:
    """Return the checkpoint at a path; refuse to write into another run's directory.

    Args:
        path: path of the checkpoint, or of its run.
        directory: directory of this run.
        home: folder of this run's checkpoints.
        overwrite: True to move the contents of the directory aside.

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
        if overwrite:
            raise ConfigError(f"overwrite is true, but would move {source.path}: leave it out")
        _check_record_reaches(source, directory)
    elif not overwrite and (has_metrics(directory) or list_checkpoints(home)):
        raise CheckpointError(
            f"resume is {path}, but {directory} holds the record of another run: "
            f"{START_ANEW_REMEDY}"
        )
    # It was named explicitly: do not fall back to another one.
    return replace(source, older=())


def _check_record_reaches(saved: SavedCheckpoint, directory: Path) -> None:
    """Refuse a checkpoint beyond the end of the record; name an earlier one if there is any."""
    try:
        check_record(directory, saved.position())
    except CheckpointError as error:
        reached = next((path for path in saved.older if _record_reaches(path, directory)), None)
        remedy = f"continue from an older checkpoint, resume={reached}, " if reached else ""
        raise CheckpointError(
            f"{saved.path}: {error}; {remedy}restore the record, go on without it in another "
            f"directory, resume={saved.path} directory=NEW, or {START_ANEW_REMEDY}"
        ) from error


def _record_reaches(path: Path, directory: Path) -> bool:
    try:
        check_record(directory, open_checkpoint(path).position())
    except CheckpointError:
        return False
    return True


# Settings that may change between a run and its continuation without changing its numbers.
CHANGEABLE_SETTINGS = (
    "accept_changed_files",
    "device",
    "directory",
    "overwrite",
    "parallel",
    "resume",
    "tracker",
    "trust",
)


def _is_changeable(path: str) -> bool:
    # A soup and a tokenizer have a trust of their own.
    return path.split(".")[0] in CHANGEABLE_SETTINGS or path.endswith(".trust")


def check_same_config(saved: SavedCheckpoint, config: DictConfig) -> None:
    """Refuse to resume under a changed config; :data:`CHANGEABLE_SETTINGS` may change.

    Raises:
        CheckpointError: another value changed, and the message names each; or the config is of 0.1.
    """
    if paths := _config_changes(saved.path, config):
        end = _end_settings(saved, config)
        hint = f"; all its steps are done ({end[0]}): raise them as well, {end[1]}" if end else ""
        changed_values = "; ".join(
            f"{path} was {was}, is {now}" for path, (was, now) in paths.items()
        )
        raise CheckpointError(
            f"{saved.path} is of another config ({changed_values}): {START_ANEW_REMEDY}, or "
            f"continue it on purpose with resume={saved.path}, which takes the same shapes{hint}"
        )


def _has_same_config(path: Path, config: DictConfig) -> bool:
    try:
        return not _config_changes(path, config)
    except CheckpointError:
        return False


def _config_changes(path: Path, config: DictConfig) -> dict[str, tuple[str, str]]:
    """Return the changes between the config of a checkpoint and this one, by path."""
    old = update_classes(read_saved_config(path / CONFIG, trust=True))  # compared, not built
    if (fault := version_0_1_message(old)) is not None:
        raise CheckpointError(f"{path}: {fault}; choose another directory")
    return {p: v for p, v in config_differences(old, config).items() if not _is_changeable(p)}
