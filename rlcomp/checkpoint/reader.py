"""Reader of checkpoints; they are untrusted, so opening one checks everything."""

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
from rlcomp.checkpoint.position import check_position, check_within, parse_step
from rlcomp.checkpoint.state import node_of_key, restore
from rlcomp.checkpoint.state_fields import check_fields, field, join_tree
from rlcomp.errors import CheckpointError, RlcompWarning
from rlcomp.files.untrusted import parse_json, read_json, read_saved_config


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint with intact files.

    Attributes:
        path: its directory.
        older: older checkpoints to try if this one cannot be restored, the newest first.
        skipped_nodes: nodes whose saved state is ignored.
    """

    path: Path
    older: tuple[Path, ...] = ()
    skipped_nodes: frozenset[str] = frozenset()

    def restore(self, nodes: Mapping[str, object], seed: int | None = None) -> dict[str, Any]:
        """Restore everything, or nothing; return the position of the run.

        Args:
            nodes: the run's nodes, by name.
            seed: the run's seed. If the saved run has another seed, generators keep their current
                state (several seeds start from one checkpoint), and all else is restored.

        Raises:
            CheckpointError: the checkpoint belongs to a run of other nodes, or a state is invalid.
        """
        state = self.state()
        position: dict[str, Any] = state["place"]
        keep_generators = seed is not None and seed != position.get("seed", seed)
        restore(self.path, nodes, self.tensors(), state, keep_generators, self.skipped_nodes)
        return position

    def nodes(self) -> set[str]:
        """Return the paths of the nodes with saved state.

        Raises:
            CheckpointError: the checkpoint cannot be read.
        """
        keys = [
            name for name in _tensor_names(self.path / TENSORS) if not name.startswith("state/")
        ]
        return {node_of_key(key) for key in (*keys, *self.state()["nodes"])}

    def position(self) -> dict[str, Any]:
        """Return the position of the run (:func:`rlcomp.checkpoint.position.check_position`)."""
        position: dict[str, Any] = self.state()["place"]
        return position

    def state(self) -> dict[str, Any]:
        """Return the checked state without tensors.

        Returns:
            ``nodes``: the state of each part; ``random``: the state of the generators; ``passing``:
            the parts whose state may be missing; ``place``: the position of the run.

        Raises:
            CheckpointError: a field is missing, of another type or out of range.
        """
        file = self.path / STATE
        state = read_json(file)
        try:
            check_fields(state, ("nodes", "random", "place"), ("passing",))
            check_position(state["place"], self.path.name)
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
            with safe_open(file, "pt") as reader:
                return {name: reader.get_tensor(name) for name in reader.keys()}
        except Exception as error:  # a dtype that torch lacks is no SafetensorError
            raise CheckpointError(f"{file} cannot be read: {error}") from error


def list_checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoints in a directory, the newest first."""
    steps = {path: parse_step(path.name) for path in directory.glob("step-*")}
    return sorted((p for p in steps if steps[p] is not None), key=steps.__getitem__, reverse=True)  # type: ignore[arg-type]


def newest_readable(paths: Sequence[Path], with_config: bool = False) -> SavedCheckpoint:
    """Return the first checkpoint that can be read; warn of each checkpoint before it.

    Args:
        paths: the checkpoints, the newest first.
        with_config: whether the checkpoint must have the run's config, which only the command line
            writes.

    Raises:
        CheckpointError: no checkpoint can be read.
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
    """Open a checkpoint by its directory, or the newest readable one of a run's directory.

    Raises:
        CheckpointError: there is no checkpoint, or it was changed.
    """
    if parse_step(path.name) is not None or (path / MANIFEST).is_file():
        return _open(path.resolve() if path.is_symlink() else path)
    paths = [*list_checkpoints(path), *list_checkpoints(path / "checkpoints")]
    if not paths:
        raise CheckpointError(
            f"{path}: {_describe(path)}: name a run's directory, or one of its checkpoints/step-..."
        )
    return newest_readable(paths)


def restore_newest(
    saved: SavedCheckpoint, nodes: Mapping[str, object], seed: int, phases: Mapping[str, int]
) -> tuple[SavedCheckpoint, dict[str, Any], list[Path]]:
    """Restore the newest checkpoint that can be restored, and nothing of newer ones.

    Args:
        saved: the newest checkpoint, with older ones as alternatives.
        nodes: the run's nodes, by name.
        seed: seed of the run.
        phases: number of steps of each phase, by name.

    Returns:
        The restored checkpoint, the position of the run, and the checkpoints that could be read but
        not restored. Each of these gives a warning, and so does each older one that cannot be read.

    Raises:
        CheckpointError: no checkpoint can be restored.
    """
    candidate = saved
    passed_over: list[Path] = []
    while True:
        try:
            check_within(candidate.path, candidate.position(), phases)
            return candidate, candidate.restore(nodes, seed), passed_over
        except CheckpointError as error:
            if not candidate.older:
                raise
            warnings.warn(f"passed over: {error}", RlcompWarning, stacklevel=2)
            passed_over.append(candidate.path)
            candidate = replace(
                newest_readable(candidate.older), skipped_nodes=candidate.skipped_nodes
            )


def _describe(path: Path) -> str:
    """Describe in words what is at a path without checkpoints."""
    if any((path / name).is_file() for name in ("config.json", "adapter_config.json")):
        return (
            f"it is a folder of transformers, such as rlcomp-export writes (rlcomp base={path} and "
            f"rlcomp-evaluate {path} read it), and no run"
        )
    if path.is_file():
        return "it is a file"
    if runs := sorted(str(folder.parent) for folder in path.glob("*/checkpoints")):
        return f"it is a folder of runs, {', '.join(runs[:3])}{', …' if runs[3:] else ''}"
    return "no whole checkpoint there" if path.exists() else "there is no such folder"


def _open(path: Path) -> SavedCheckpoint:
    """Open a checkpoint; check its files, header, config, position and all states."""
    try:
        check_files(path)
        file = path / CONFIG
        # Trusted, because nothing is built from the config here: only its seed is read.
        config = read_saved_config(file, trust=True) if file.is_file() else None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    checkpoint = SavedCheckpoint(path)
    state, unused = checkpoint.state(), dict.fromkeys(_tensor_names(path / TENSORS))
    if config is not None:
        _check_seed(path, state["place"], config)
    try:
        for tree in (state["random"], *state["nodes"].values()):
            join_tree(tree, unused)  # only a check: removes the names of the tree's tensors
        if names := [name for name in unused if name.startswith("state/")]:
            raise CheckpointError(f"no state has the tensor '{names[0]}'")
    except (CheckpointError, RecursionError) as error:
        raise CheckpointError(f"{path / STATE}: {error}") from error
    return checkpoint


def _check_seed(path: Path, position: Mapping[str, Any], config: DictConfig) -> None:
    """Check that state and config have the same seed, if both have one."""
    saved, configured = position.get("seed"), config.get("seed")
    if isinstance(configured, int) and saved not in (None, configured):
        raise CheckpointError(
            f"{path / STATE}: 'seed' is {saved}, but {configured} in {CONFIG} beside it: put "
            "back the file that is of another run"
        )


def _tensor_names(file: Path) -> list[str]:
    """Return the names of the tensors in a file, and check its header.

    The header has the length of a JSON text in eight bytes, then the text.
    """
    try:
        with safe_open(file, "pt") as reader:  # checks offsets and lengths, but not the JSON
            names = list(reader.keys())
        with file.open("rb") as raw:
            parse_json(raw.read(int.from_bytes(raw.read(8), "little")))
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error
    return names
