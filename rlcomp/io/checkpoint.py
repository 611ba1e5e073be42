"""Checkpoints: one directory per step, safetensors and JSON, atomic writes, exact resume."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.errors import CheckpointError
from rlcomp.io.state import collect, restore

FORMAT = 1


class Checkpoint(Component):
    """Saves the run under ``directory/step-NNNNNNNN``; only the newest ``keep`` stay.

    The best step of a phase, where a stage says which it is (:func:`rlcomp.metrics.keep_best`),
    stays under ``directory/best`` (:mod:`rlcomp.io.best`).

    Args:
        directory: made when the first checkpoint is written.
        keep: how many to keep.
        config: text of the run's config, stored beside the tensors.
    """

    def __init__(
        self, *, directory: NonEmptyText, keep: PositiveInt, config: str | None = None
    ) -> None:
        super().__init__()
        self.directory = Path(directory)
        self.keep = keep
        self.config = config

    def save(self, nodes: Mapping[str, object], place: dict[str, Any]) -> Path:
        """Write one checkpoint; delete the oldest."""
        final = self.write(self.directory, nodes, place)
        self._prune(final)
        return final

    def write(self, directory: Path, nodes: Mapping[str, object], place: dict[str, Any]) -> Path:
        """Write one checkpoint atomically into a directory.

        Raises:
            CheckpointError: it cannot be written.
        """
        tensors, state = collect(nodes)
        state["place"] = place
        final = directory / step_name(place)
        draft = directory / f".tmp-{final.name}-{os.getpid()}"
        shutil.rmtree(draft, ignore_errors=True)
        try:
            draft.mkdir(parents=True)
            save_file(tensors, draft / "tensors.safetensors")
            (draft / "state.json").write_text(json.dumps(state))
            if self.config is not None:
                (draft / "config.yaml").write_text(self.config, encoding="utf-8")
            _seal(draft, final)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"{final} cannot be written ({error}): is the directory writable, the disk full?"
            ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return final

    def _prune(self, newest: Path) -> None:
        """Keep the newest; delete later ones, left by an abandoned continuation."""
        found = sorted(self.directory.glob("step-*"))
        mine = [path for path in found if path <= newest]
        for old in {*found} - {*mine[-self.keep :]}:
            shutil.rmtree(old)
        for stale in self.directory.glob(".tmp-step-*"):
            shutil.rmtree(stale)

    def newest(self) -> Saved | None:
        """The newest intact checkpoint; broken ones are skipped with a warning."""
        return _newest_whole(self.directory.glob("step-*"))


def step_name(place: Mapping[str, Any]) -> str:
    """The name of the checkpoint after a step, by its ``total``."""
    return f"step-{place['total']:08d}"


def _newest_whole(paths: Iterable[Path]) -> Saved | None:
    for path in sorted(paths, reverse=True):
        try:
            return open_checkpoint(path)
        except CheckpointError as error:
            warnings.warn(f"passed over: {error}", stacklevel=3)
    return None


def _seal(draft: Path, final: Path) -> None:
    files = sorted(path for path in draft.iterdir())
    manifest = {
        "format": FORMAT,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "files": {path.name: [path.stat().st_size, _digest(path)] for path in files},
    }
    (draft / "manifest.json").write_text(json.dumps(manifest, indent=1))
    for path in draft.iterdir():
        with path.open("rb") as handle:
            os.fsync(handle.fileno())
    _sync(draft)
    if final.exists():
        shutil.rmtree(final)
    os.rename(draft, final)
    _sync(final.parent)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class Saved:
    """A checkpoint with intact files."""

    path: Path

    def restore(self, nodes: Mapping[str, object], seed: int | None = None) -> dict[str, Any]:
        """Restore everything; return the position of the run.

        Args:
            nodes: the run's nodes, by name.
            seed: the run's seed; if it is not the saved run's, what is drawn from here on is the
                new seed's (several seeds from one warm start), and only the rest comes back.

        Raises:
            CheckpointError: the checkpoint belongs to a run of other nodes.
        """
        tensors, state = self.tensors(), self._state()
        place: dict[str, Any] = state["place"]
        redraw = seed is not None and seed != place.get("seed", seed)
        restore(self.path, nodes, tensors, state, redraw)
        return place

    def place(self) -> dict[str, Any]:
        """The position of the run."""
        place: dict[str, Any] = self._state()["place"]
        return place

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.path / "state.json").read_text())
        return state

    def tensors(self) -> dict[str, Tensor]:
        """Every saved tensor, by ``node:name``."""
        tensors: dict[str, Tensor] = load_file(self.path / "tensors.safetensors")
        return tensors


def open_checkpoint(path: Path) -> Saved:
    """A checkpoint by its directory, or the newest whole one of a run's directory.

    Raises:
        CheckpointError: there is none, or a file is missing, cut short or changed.
    """
    if not (path / "manifest.json").is_file():
        found = _newest_whole([*path.glob("step-*"), *path.glob("checkpoints/step-*")])
        if found is None:
            raise CheckpointError(
                f"{path}: no whole checkpoint there: name a run's directory, or one of its "
                "checkpoints/step-..."
            )
        return found
    for name, (size, digest) in _manifest(path / "manifest.json").items():
        file = path / name
        if not file.is_file():
            raise CheckpointError(f"{file} is missing")
        if file.stat().st_size != size or _digest(file) != digest:
            raise CheckpointError(f"{file} is not what was written: size or checksum differ")
    return Saved(path)


def _manifest(file: Path) -> dict[str, tuple[int, str]]:
    """Size and digest of every file of a checkpoint."""
    try:
        manifest = json.loads(file.read_bytes())
        written, files = manifest["format"], manifest["files"]
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{file} is not what was written") from None
    if written != FORMAT:
        raise CheckpointError(f"{file}: format {written}, this version reads format {FORMAT}")
    return dict(files)
