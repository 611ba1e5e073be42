"""Reader of checkpoints: a checkpoint is untrusted, so opening checks everything."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from safetensors import SafetensorError, safe_open
from torch import Tensor

from rlcomp.arguments import problem
from rlcomp.checkpoint.manifest import CONFIG, MANIFEST, STATE, TENSORS, check_files
from rlcomp.checkpoint.progress import check_progress, step_of
from rlcomp.checkpoint.state import node_of, restore
from rlcomp.checkpoint.state_fields import field, names
from rlcomp.checkpoint.tree import join_tree
from rlcomp.errors import CheckpointError, RlcompWarning
from rlcomp.files.untrusted import parse_json, read_json, read_saved_config


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint with intact files.

    Attributes:
        path: its directory.
        older: others of its run, the newest first, for the case that this one cannot be restored.
        skipped: nodes whose state is neither restored nor missed.
    """

    path: Path
    older: tuple[Path, ...] = ()
    skipped: frozenset[str] = frozenset()

    def restore(self, nodes: Mapping[str, object], seed: int | None = None) -> dict[str, Any]:
        """Restore everything, or nothing; return the position of the run.

        Args:
            nodes: the run's nodes, by name.
            seed: the run's seed. If it differs from the saved run's, generators keep the new seed
                (several seeds from one warm start) and only the rest is restored.

        Raises:
            CheckpointError: the checkpoint belongs to a run of other nodes, or a state is invalid.
        """
        state = self.state()
        place: dict[str, Any] = state["place"]
        redraw = seed is not None and seed != place.get("seed", seed)
        restore(self.path, nodes, self.tensors(), state, redraw, self.skipped)
        return place

    def nodes(self) -> set[str]:
        """Return the paths of the nodes that have state in it.

        Raises:
            CheckpointError: it cannot be read.
        """
        keys = [name for name in _header(self.path / TENSORS) if not name.startswith("state/")]
        return {node_of(key) for key in (*keys, *self.state()["nodes"])}

    def position(self) -> dict[str, Any]:
        """Return the position of the run."""
        place: dict[str, Any] = self.state()["place"]
        return place

    def state(self) -> dict[str, Any]:
        """Return the checked state but the tensors: ``nodes``, ``random``, ``passing``, ``place``.

        Raises:
            CheckpointError: a field is missing, of another type or out of range; names it.
        """
        file = self.path / STATE
        state = read_json(file)
        try:
            names(state, ("nodes", "random", "place"), ("passing",))
            check_progress(state["place"], self.path.name)
            field(state, "nodes", dict)
            if fault := problem(list[str], state.get("passing", [])):
                raise CheckpointError(f"'passing' {fault}")
        except CheckpointError as error:
            raise CheckpointError(f"{file}: {error}") from error
        checked: dict[str, Any] = state
        return checked

    def tensors(self) -> dict[str, Tensor]:
        """Return every saved tensor, by ``node:name``.

        Raises:
            CheckpointError: a tensor cannot be read.
        """
        file = self.path / TENSORS
        try:
            with safe_open(file, "pt") as opened:
                return {name: opened.get_tensor(name) for name in opened.keys()}
        except Exception as error:  # a dtype that torch lacks is no SafetensorError
            raise CheckpointError(f"{file} cannot be read: {error}") from error


def checkpoints_in(directory: Path) -> list[Path]:
    """Return the checkpoints in a directory, the newest first."""
    steps = {path: step_of(path.name) for path in directory.glob("step-*")}
    return sorted((p for p in steps if steps[p] is not None), key=steps.__getitem__, reverse=True)  # type: ignore[arg-type]


def newest_whole(paths: Sequence[Path], with_config: bool = False) -> SavedCheckpoint:
    """Return the first of these checkpoints that is whole; warn of those before it.

    Args:
        paths: the newest first.
        with_config: require the config of the run, which the command line writes.

    Raises:
        CheckpointError: no checkpoint is whole.
    """
    refused: list[CheckpointError] = []
    for index, path in enumerate(paths):
        try:
            checkpoint = replace(_open(path), older=tuple(paths[index + 1 :]))
            if with_config and not (path / CONFIG).is_file():
                raise CheckpointError(f"{path} has no {CONFIG}: the command line did not write it")
        except CheckpointError as error:
            refused.append(error)
            continue
        for reason in refused:
            warnings.warn(f"passed over: {reason}", RlcompWarning, stacklevel=3)
        return checkpoint
    reasons = "; ".join(map(str, refused))
    raise CheckpointError(f"no checkpoint can be read, so nothing can be continued: {reasons}")


def open_checkpoint(path: Path) -> SavedCheckpoint:
    """Open a checkpoint by its directory, or the newest whole one of a run's directory.

    Raises:
        CheckpointError: there is no checkpoint, or it was changed.
    """
    if step_of(path.name) is not None or (path / MANIFEST).is_file():
        return _open(path.resolve() if path.is_symlink() else path)
    paths = [*checkpoints_in(path), *checkpoints_in(path / "checkpoints")]
    if not paths:
        raise CheckpointError(
            f"{path}: {_no_run(path)}: name a run's directory, or one of its checkpoints/step-..."
        )
    return newest_whole(paths)


def _no_run(path: Path) -> str:
    """Describe a path that has no checkpoint."""
    if any((path / name).is_file() for name in ("config.json", "adapter_config.json")):
        return (
            f"it is a folder of transformers, such as rlcomp-export writes (rlcomp base={path} and "
            f"rlcomp-evaluate {path} read it), and no run"
        )
    if path.is_file():
        return "it is a file"
    if runs := sorted(str(one.parent) for one in path.glob("*/checkpoints")):
        return f"it is a folder of runs, {', '.join(runs[:3])}{', …' if runs[3:] else ''}"
    return "no whole checkpoint there" if path.exists() else "there is no such folder"


def _open(path: Path) -> SavedCheckpoint:
    """Open a checkpoint; check files, header, config, position and the trees of all states."""
    try:
        check_files(path)
        has_config = (path / CONFIG).is_file()
        config = (
            read_saved_config(path / CONFIG, trust=True) if has_config else None
        )  # is only read
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    checkpoint = SavedCheckpoint(path)
    state, unread = checkpoint.state(), dict.fromkeys(_header(path / TENSORS))
    if config is not None:
        _check_seed(path, state["place"], config)
    try:
        for code in (state["random"], *state["nodes"].values()):
            join_tree(code, unread)
        if names := [name for name in unread if name.startswith("state/")]:
            raise CheckpointError(f"nothing holds the tensor '{names[0]}'")
    except (CheckpointError, RecursionError) as error:
        raise CheckpointError(f"{path / STATE}: {error}") from error
    return checkpoint


def _check_seed(path: Path, place: Mapping[str, Any], config: DictConfig) -> None:
    """Check that state and config have one seed; a config without a seed is refused elsewhere."""
    of_state, of_config = place.get("seed"), config.get("seed")
    if isinstance(of_config, int) and of_state not in (None, of_config):
        raise CheckpointError(
            f"{path / STATE}: 'seed' is {of_state}, but {of_config} in {CONFIG} beside it: put "
            "back the file that is of another run"
        )


def _header(file: Path) -> list[str]:
    """Return the names of the tensors in a file."""
    try:
        with safe_open(file, "pt") as opened:  # checks offsets and lengths, but not the JSON
            names = list(opened.keys())
        with file.open("rb") as raw:
            parse_json(raw.read(int.from_bytes(raw.read(8), "little")))
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error
    return names
