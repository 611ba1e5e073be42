"""Best checkpoints: one for each phase that names a best step, under ``checkpoints/best``.

A record of such a step (``phase``, ``metric``, ``better``, ``value``, ``step``, ``total``) is part
of the run's position, so every checkpoint holds the records of its run, and a best one its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcomp.checkpoint.progress import step_name
from rlcomp.checkpoint.reader import checkpoints_in, open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.errors import CheckpointError
from rlcomp.files.atomic_write import delete_drafts, delete_path

BEST = "best"
Record = Mapping[str, Any]


def save_best(
    checkpoint: Checkpoint,
    nodes: Mapping[str, object],
    place: dict[str, Any],
    records: list[Record],
) -> None:
    """Write the checkpoint of a best step, and delete those that no record names.

    Args:
        checkpoint: of the run.
        nodes: the saved nodes, by name.
        place: the position of the run.
        records: the best step of each phase so far, this one among them.
    """
    home = checkpoint.directory / BEST
    checkpoint.write(home, nodes, place)
    _delete(checkpoint, {step_name(record) for record in records})


def retain_best(checkpoint: Checkpoint, records: Iterable[Record], source: Path | None) -> None:
    """Set up ``best`` for a run that starts, or continues, with these records.

    Checkpoints of an abandoned continuation, or of an earlier run in this directory, are deleted.
    A missing one is copied from beside the checkpoint that the run continues from, if it is there.

    Args:
        checkpoint: of the run.
        records: the best step of each phase so far.
        source: the checkpoint that the run continues from.

    Raises:
        CheckpointError: the directory cannot be written.
    """
    home, names = checkpoint.directory / BEST, set()
    try:
        for record in records:
            paths = (path for path in _candidates(home, source, record) if _holds(path, record))
            if (path := next(paths, None)) is not None:
                _copy(checkpoint, path, home / step_name(record))
                names.add(step_name(record))
        _delete(checkpoint, names)
    except OSError as error:
        raise CheckpointError(f"{home} cannot be written ({error}): is it writable?") from error


def best_checkpoint(checkpoint: Checkpoint | None, record: Record) -> str | None:
    """Return ``checkpoints/best/step-...``, the checkpoint of a best step, or None if missing."""
    if checkpoint is None or not (checkpoint.directory / BEST / step_name(record)).is_dir():
        return None
    return f"{checkpoint.directory.name}/{BEST}/{step_name(record)}"


def _candidates(home: Path, source: Path | None, record: Record) -> Iterator[Path]:
    """Yield the paths where the checkpoint of a best step may be."""
    name = step_name(record)
    yield home / name
    # The source is run/checkpoints/step-... or run/checkpoints/best/step-...
    for folder in () if source is None else source.parents[:3]:
        yield from (folder / BEST / name, folder / name)


def _holds(path: Path, record: Record) -> bool:
    """Return whether a checkpoint is whole and its run has this record of a best step."""
    if not path.is_dir():
        return False
    try:
        best = open_checkpoint(path).position().get("best")
    except CheckpointError:
        return False
    return isinstance(best, dict) and record in best.values()


def _copy(checkpoint: Checkpoint, path: Path, to: Path) -> None:
    if path == to:
        return
    draft = to.parent / f".tmp-{to.name}-{os.getpid()}"
    delete_path(draft)
    shutil.copytree(path, draft)
    checkpoint.put(draft, to)


def _delete(checkpoint: Checkpoint, names: set[str]) -> None:
    """Delete all best checkpoints but those of these names."""
    home = checkpoint.directory / BEST
    checkpoint.delete(path for path in checkpoints_in(home) if path.name not in names)
    delete_drafts(home)
