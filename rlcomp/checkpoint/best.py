"""Best checkpoints: one for each phase that names a best step, under ``checkpoints/best``.

The records of the best steps (``phase``, ``metric``, ``better``, ``value``, ``step``, ``total``)
are part of the run's position, so every checkpoint holds them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcomp.checkpoint.position import step_name
from rlcomp.checkpoint.reader import list_checkpoints, open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.errors import CheckpointError
from rlcomp.files.atomic_write import delete_drafts, delete_path

BEST = "best"
# Record of a best step.
Record = Mapping[str, Any]


def save_best(
    checkpoint: Checkpoint,
    nodes: Mapping[str, object],
    position: dict[str, Any],
    records: list[Record],
) -> None:
    """Write the checkpoint of a best step, and delete the best checkpoints without a record.

    Args:
        checkpoint: writer of the run's checkpoints.
        nodes: the saved nodes, by name.
        position: the run's position.
        records: the best step of each phase so far, this one included.
    """
    checkpoint.write(checkpoint.directory / BEST, nodes, position)
    _delete_others(checkpoint, {step_name(record) for record in records})


def retain_best(checkpoint: Checkpoint, records: Iterable[Record], source: Path | None) -> None:
    """Set up ``best`` for a run that starts, or continues, with these records.

    Best checkpoints without a record are deleted: they are of an abandoned continuation, or of an
    earlier run in this directory. A missing one is copied from the run of ``source``, if it is
    there.

    Args:
        checkpoint: writer of the run's checkpoints.
        records: the best step of each phase so far.
        source: the checkpoint that the run continues from; None for a new run.

    Raises:
        CheckpointError: the directory cannot be written.
    """
    folder, names = checkpoint.directory / BEST, set()
    try:
        for record in records:
            paths = _candidates(folder, source, record)
            if (path := next((path for path in paths if _holds(path, record)), None)) is not None:
                _copy(checkpoint, path, folder / step_name(record))
                names.add(step_name(record))
        _delete_others(checkpoint, names)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be written ({error}): is it writable?") from error


def best_checkpoint(checkpoint: Checkpoint | None, record: Record) -> str | None:
    """Return the path of a best step's checkpoint, such as ``checkpoints/best/step-00000040``.

    None if it is missing, or if the run writes no checkpoints.
    """
    if checkpoint is None or not (checkpoint.directory / BEST / step_name(record)).is_dir():
        return None
    return f"{checkpoint.directory.name}/{BEST}/{step_name(record)}"


def _candidates(folder: Path, source: Path | None, record: Record) -> Iterator[Path]:
    """Yield the possible paths of the checkpoint of a best step."""
    name = step_name(record)
    yield folder / name
    # The source is run/checkpoints/step-... or run/checkpoints/best/step-..., so that one of its
    # first three parents holds `best`, or the checkpoint itself.
    for parent in () if source is None else source.parents[:3]:
        yield from (parent / BEST / name, parent / name)


def _holds(path: Path, record: Record) -> bool:
    """Return whether a checkpoint can be read and has this record of a best step."""
    if not path.is_dir():
        return False
    try:
        best = open_checkpoint(path).position().get("best")
    except CheckpointError:
        return False
    return isinstance(best, dict) and record in best.values()


def _copy(checkpoint: Checkpoint, path: Path, target: Path) -> None:
    if path == target:
        return
    draft = target.parent / f".tmp-{target.name}-{os.getpid()}"
    delete_path(draft)
    shutil.copytree(path, draft)
    checkpoint.publish(draft, target)


def _delete_others(checkpoint: Checkpoint, names: set[str]) -> None:
    """Delete all best checkpoints but those with these names."""
    folder = checkpoint.directory / BEST
    checkpoint.delete(path for path in list_checkpoints(folder) if path.name not in names)
    delete_drafts(folder)
