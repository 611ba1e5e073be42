"""Files in the directory of a run: refuse links, check, truncate and archive the record."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from rlcomp.errors import CheckpointError, ConfigError, RlcompWarning
from rlcomp.files.digests import Mark, RunningDigest, read_digest
from rlcomp.files.json_lines import is_count, last_line
from rlcomp.files.run_record import ENDED, FAILURE, METRICS, RUN_RECORD, SAMPLES

# The folder that an overwritten run is moved to, and the files that are moved.
OVERWRITTEN = "overwritten"
_RUN_FILES = (METRICS, SAMPLES, ENDED, RUN_RECORD, FAILURE, "curve.png", "tensorboard")
# Patterns of checkpoints: their directory may hold files of others.
_CHECKPOINTS = ("step-*", "unreadable-step-*", "best", "dump-*", ".tmp-*")
# Files that a run writes in place; it replaces all others (:mod:`rlcomp.files.atomic_write`).
_WRITTEN_IN_PLACE = (".hydra", "rlcomp.log", "multirun.yaml", METRICS, SAMPLES, ENDED, OVERWRITTEN)


def check_links(directory: Path) -> None:
    """Refuse an untrusted directory with a link or FIFO where a run writes.

    A link at ``checkpoints``, to a larger disk, is usual and allowed.

    Args:
        directory: a run's directory, or a sweep's with all its jobs.

    Raises:
        ConfigError: names the path and the remedy.
    """
    for folder in (directory, *directory.glob("[0-9]*")):
        for path in (
            *(folder / name for name in _WRITTEN_IN_PLACE),
            *(folder / ".hydra").glob("*"),
        ):
            if path.is_symlink():
                raise ConfigError(
                    f"{path} is a link: what a run writes there would land elsewhere; delete the "
                    "link, or choose another directory"
                )
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise ConfigError(
                    f"{path} is neither a file nor a folder, and a run would wait there for ever: "
                    "delete it, or choose another directory"
                )


def check_record(directory: Path, position: Mapping[str, Any]) -> None:
    """Check that the record in a directory belongs to a run, up to a position of the run.

    The position states a length of each file of the record, and digests. The line of the metrics
    that ends at this length must have the step of the position, and the bytes before must have
    these digests. A position of an earlier version has no digests: this is a warning.

    Args:
        directory: the run's directory.
        position: a checked position (:func:`rlcomp.checkpoint.position.check_position`).

    Raises:
        CheckpointError: the record is shorter, changed, or of another run; the message names the
            file.
    """
    lengths = position["trackers"].get("json_lines", {})
    if lengths and "digests" not in lengths:
        warnings.warn(
            f"the checkpoint at step {position['total']} is of an earlier version and has no "
            f"digest of the record in {directory}: only its size and its last line are checked",
            RlcompWarning,
            stacklevel=2,
        )
    for name, file in (("metrics", METRICS), ("samples", SAMPLES)):
        if lengths.get(name):
            total = record_line(directory / file, lengths[name]).get("total")
            steps = position["total"]
            # A step need not have samples: the last line of the samples may be of an earlier step.
            if not is_count(total) or total > steps or (name == "metrics" and total < steps):
                raise CheckpointError(
                    f"{directory / file} has step {total!r:.20} where the checkpoint has step "
                    f"{steps}: it is the record of another run"
                )
            read_digest(directory / file, lengths[name], lengths.get("digests", {}).get(name, ()))


def record_line(file: Path, size: int) -> dict[str, Any]:
    """Return the object in the line that ends at byte ``size`` of a file.

    Raises:
        CheckpointError: the file is shorter, or no such line ends there.
    """
    length = file.stat().st_size if file.is_file() else 0
    if length < size:
        raise CheckpointError(
            f"{file} has {length:,} bytes, the checkpoint tells of {size:,}: a part of the record "
            "was lost"
        )
    row = last_line(file, size)
    if row is None:
        raise CheckpointError(
            f"{file} has no line that ends at byte {size:,}, as the checkpoint tells: it was "
            "changed, or is the record of another run"
        )
    return row


def truncate_record(file: Path, size: int, marks: Sequence[Mark] = ()) -> RunningDigest:
    """Check a file of the record, truncate it to its length at a checkpoint; return its digest.

    A missing file is created, and an empty file stays empty, whatever the length: the run continues
    in another directory.

    Args:
        file: a file of the record.
        size: its length at the checkpoint.
        marks: marks of the file up to this length; empty for a checkpoint without digests.

    Raises:
        CheckpointError: as :func:`record_line`, or the file was changed.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    if not file.stat().st_size:
        return RunningDigest()
    if size:
        record_line(file, size)
    digest = read_digest(file, size, marks)
    os.truncate(file, size)
    return digest


def archive_run(directory: Path, checkpoints: Path) -> Path | None:
    """Move the files and checkpoints of an earlier run to the next unused ``overwritten/N``.

    The folder of checkpoints is removed if it is empty afterwards.

    Args:
        directory: the run's directory.
        checkpoints: the folder of its checkpoints, which may be a link or the directory itself.

    Returns:
        The new folder; None if there were no files and no checkpoints.
    """
    targets = {directory / name: name for name in _RUN_FILES if (directory / name).exists()}
    for path in {path for pattern in _CHECKPOINTS for path in checkpoints.glob(pattern)}:
        targets[path] = f"checkpoints/{path.name}"
    if not targets:
        return None
    folders = (directory / OVERWRITTEN / str(n) for n in count(1))
    folder = next(path for path in folders if not path.exists())
    (folder / "checkpoints").mkdir(parents=True)
    for path, name in targets.items():
        shutil.move(path, folder / name)
    separate = checkpoints != directory and not checkpoints.is_symlink()
    if separate and checkpoints.is_dir() and not any(checkpoints.iterdir()):
        checkpoints.rmdir()
    return folder
