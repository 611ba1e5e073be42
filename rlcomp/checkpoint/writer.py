"""Writer of checkpoints: one directory per step with safetensors and JSON, written atomically."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.checkpoint.manifest import CONFIG, STATE, TENSORS, write_manifest
from rlcomp.checkpoint.position import check_position, step_name
from rlcomp.checkpoint.reader import (
    SavedCheckpoint,
    list_checkpoints,
    newest_readable,
    open_checkpoint,
)
from rlcomp.checkpoint.state import collect
from rlcomp.component import Component
from rlcomp.errors import CheckpointError
from rlcomp.files.atomic_write import delete_drafts, delete_path, sync
from rlcomp.files.untrusted import MAX_JSON_BYTES


class Checkpoint(Component):
    """Rolling checkpoints ``directory/step-NNNNNNNN``: the newest ``keep`` are kept.

    A checkpoint that cannot be read (damaged, of a newer format) is never deleted. If the run
    writes another one of that step, it is renamed to ``unreadable-step-...``.

    The best step of a phase, if a stage names it (:func:`rlcomp.metrics.keep_best`), is kept under
    ``directory/best`` (:mod:`rlcomp.checkpoint.best`).

    Args:
        directory: created with the first checkpoint.
        keep: number of checkpoints to keep.
        config: text of the run's config, stored beside the tensors.
    """

    def __init__(
        self, *, directory: NonEmptyText, keep: PositiveInt = 2, config: str | None = None
    ) -> None:
        super().__init__()
        self.directory = Path(directory)
        self.keep = keep
        self.config = config
        self.readable: dict[Path, bool] = {}  # of the checkpoints that were tried or written

    def save(self, nodes: Mapping[str, object], position: dict[str, Any]) -> Path:
        """Write a checkpoint; delete old ones, and later ones of an abandoned continuation.

        Args:
            nodes: the saved nodes, by name.
            position: the run's position.

        Returns:
            The path of the checkpoint.

        Raises:
            CheckpointError: as in :meth:`write`.
        """
        final = self.write(self.directory, nodes, position)
        self._prune(final)
        return final

    def write(self, directory: Path, nodes: Mapping[str, object], position: dict[str, Any]) -> Path:
        """Write a checkpoint atomically into a directory; return its path.

        Raises:
            CheckpointError: the checkpoint cannot be written, its state is too large to be read
                back, or the position is invalid.
        """
        tensors, state = collect(nodes)
        state["place"] = check_position(position, "")
        final = directory / step_name(position)
        draft = directory / f".tmp-{final.name}-{os.getpid()}"
        try:
            delete_path(draft)
            draft.mkdir(parents=True)
            save_file(tensors, draft / TENSORS)
            text = json.dumps(state)
            if len(text) > MAX_JSON_BYTES:
                raise CheckpointError(
                    f"the state of the run's parts has {len(text):,} characters, and would not be "
                    "read back: save large states as tensors"
                )
            (draft / STATE).write_text(text)
            if self.config is not None:
                (draft / CONFIG).write_text(self.config, encoding="utf-8")
            write_manifest(draft)
            for path in (*draft.iterdir(), draft):
                sync(path)
            self.publish(draft, final)
            sync(final.parent)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"{final} cannot be written ({error}): is the directory writable, the disk full?"
            ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return final

    def publish(self, draft: Path, final: Path) -> None:
        """Rename a draft to a checkpoint.

        A checkpoint of that name is deleted; if it is unreadable, it is renamed.
        """
        self.delete([final])
        if os.path.lexists(final):
            os.rename(final, _unreadable_name(final))
        os.rename(draft, final)
        self.readable[final] = True

    def _prune(self, newest: Path) -> None:
        """Delete old checkpoints, later ones of an abandoned continuation, and drafts."""
        paths = [path for path in list_checkpoints(self.directory) if self._can_read(path)]
        start = paths.index(newest)
        self.delete({*paths} - {*paths[start : start + self.keep]})
        delete_drafts(self.directory)

    def tidy(self, newest: Path) -> None:
        """Delete the remains of a killed run: drafts, and old checkpoints up to ``newest``.

        Later checkpoints are kept until this run writes its first one: a user who continues from an
        older checkpoint may still want them. Nothing is deleted if ``newest`` is not one of the
        directory's readable checkpoints, such as the checkpoint of another run.
        """
        paths = [path for path in list_checkpoints(self.directory) if self._can_read(path)]
        if newest in paths:
            self.delete(paths[paths.index(newest) + self.keep :])
            delete_drafts(self.directory)

    def delete(self, paths: Iterable[Path]) -> None:
        """Delete checkpoints; unreadable ones are kept."""
        for path in paths:
            if path.is_dir() and self._can_read(path):
                # Half a checkpoint would be unreadable, and never be deleted.
                draft = path.with_name(f".tmp-{path.name}-deleted-{os.getpid()}")
                delete_path(draft)
                os.rename(path, draft)
                shutil.rmtree(draft)
                del self.readable[path]

    def _can_read(self, path: Path) -> bool:
        """Return whether this run wrote a checkpoint, or can open it."""
        if path not in self.readable:
            try:
                self.readable[path] = open_checkpoint(path).path == path
            except CheckpointError:
                self.readable[path] = False
        return self.readable[path]

    def newest(self) -> SavedCheckpoint | None:
        """Return the newest readable checkpoint; None if there are none; warn of unreadable ones.

        Raises:
            CheckpointError: there are checkpoints, but none can be read.
        """
        paths = list_checkpoints(self.directory)
        return newest_readable(paths) if paths else None


def _unreadable_name(final: Path) -> Path:
    """Return an unused name for an unreadable checkpoint."""
    names = (final.with_name(f"unreadable-{final.name}{'-' * bool(n)}{n or ''}") for n in count())
    return next(name for name in names if not os.path.lexists(name))
