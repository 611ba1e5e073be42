"""Reader of checkpoints: everything is checked on opening, for it may be a stranger's."""

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
from rlcomp.errors import CheckpointError, RlcompWarning
from rlcomp.io.fields import field, names
from rlcomp.io.manifest import CONFIG, MANIFEST, STATE, TENSORS, check_files
from rlcomp.io.place import check_place, step_of
from rlcomp.io.saved_config import saved_config
from rlcomp.io.state import node_of, restore
from rlcomp.io.strict_json import parse_json, strict_json
from rlcomp.io.tree import join_tree


@dataclass(frozen=True)
class Saved:
    """A checkpoint with intact files.

    Attributes:
        path: its directory.
        older: others of its run, the newest first, to be taken where this one cannot be restored.
        skipped: nodes whose state is neither restored nor missed.
    """

    path: Path
    older: tuple[Path, ...] = ()
    skipped: frozenset[str] = frozenset()

    def restore(self, nodes: Mapping[str, object], seed: int | None = None) -> dict[str, Any]:
        """Restore everything, or nothing; return the position of the run.

        Args:
            nodes: the run's nodes, by name.
            seed: the run's seed; if it is not the saved run's, what is drawn from here on is the
                new seed's (several seeds from one warm start), and only the rest comes back.

        Raises:
            CheckpointError: the checkpoint belongs to a run of other nodes, or a state is none.
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

    def place(self) -> dict[str, Any]:
        """The position of the run."""
        place: dict[str, Any] = self.state()["place"]
        return place

    def state(self) -> dict[str, Any]:
        """All state but the tensors: ``nodes``, ``random``, ``passing`` and ``place``, checked.

        Raises:
            CheckpointError: a field is missing, of another type or out of range; names it.
        """
        file = self.path / STATE
        state = strict_json(file)
        try:
            names(state, ("nodes", "random", "place"), ("passing",))
            check_place(state["place"], self.path.name)
            field(state, "nodes", dict)
            if fault := problem(list[str], state.get("passing", [])):
                raise CheckpointError(f"'passing' {fault}")
        except CheckpointError as error:
            raise CheckpointError(f"{file}: {error}") from error
        checked: dict[str, Any] = state
        return checked

    def tensors(self) -> dict[str, Tensor]:
        """Every saved tensor, by ``node:name``.

        Raises:
            CheckpointError: one cannot be read.
        """
        file = self.path / TENSORS
        try:
            with safe_open(file, "pt") as opened:
                return {name: opened.get_tensor(name) for name in opened.keys()}
        except Exception as error:  # of many kinds: a dtype that torch lacks is no SafetensorError
            raise CheckpointError(f"{file} cannot be read: {error}") from error


def checkpoints_in(directory: Path) -> list[Path]:
    """The checkpoints in a directory, the newest first."""
    steps = {path: step_of(path.name) for path in directory.glob("step-*")}
    return sorted((p for p in steps if steps[p] is not None), key=steps.__getitem__, reverse=True)  # type: ignore[arg-type]


def newest_whole(paths: Sequence[Path], with_config: bool = False) -> Saved:
    """The first of these checkpoints that is whole; those before it are told in warnings.

    Args:
        paths: the newest first.
        with_config: it must have the config of its run, as those that the command line writes.

    Raises:
        CheckpointError: none is.
    """
    refused: list[CheckpointError] = []
    for index, path in enumerate(paths):
        try:
            saved = replace(_open(path), older=tuple(paths[index + 1 :]))
            if with_config and not (path / CONFIG).is_file():
                raise CheckpointError(f"{path} has no {CONFIG}: the command line did not write it")
        except CheckpointError as error:
            refused.append(error)
            continue
        for reason in refused:
            warnings.warn(f"passed over: {reason}", RlcompWarning, stacklevel=3)
        return saved
    told = "; ".join(map(str, refused))
    raise CheckpointError(f"no checkpoint can be read, so nothing can be continued: {told}")


def open_checkpoint(path: Path) -> Saved:
    """A checkpoint by its directory, or the newest whole one of a run's directory.

    Raises:
        CheckpointError: there is none, or it is not what was written.
    """
    if step_of(path.name) is not None or (path / MANIFEST).is_file():
        return _open(path.resolve() if path.is_symlink() else path)
    found = [*checkpoints_in(path), *checkpoints_in(path / "checkpoints")]
    if not found:
        raise CheckpointError(
            f"{path}: {_no_run(path)}: name a run's directory, or one of its checkpoints/step-..."
        )
    return newest_whole(found)


def _no_run(path: Path) -> str:
    """What there is at a path where no checkpoint is."""
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


def _open(path: Path) -> Saved:
    """A checkpoint, checked: files, header, config, position and the trees of all states."""
    try:
        check_files(path)
        has_config = (path / CONFIG).is_file()
        config = saved_config(path / CONFIG, trust=True) if has_config else None  # read, not built
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    saved = Saved(path)
    state, left = saved.state(), dict.fromkeys(_header(path / TENSORS))
    if config is not None:
        _check_seed(path, state["place"], config)
    try:
        for code in (state["random"], *state["nodes"].values()):
            join_tree(code, left)
        if unread := [name for name in left if name.startswith("state/")]:
            raise CheckpointError(f"nothing holds the tensor '{unread[0]}'")
    except (CheckpointError, RecursionError) as error:
        raise CheckpointError(f"{path / STATE}: {error}") from error
    return saved


def _check_seed(path: Path, place: Mapping[str, Any], config: DictConfig) -> None:
    """Check that state and config have one seed; another check refuses a config without one."""
    of_state, of_config = place.get("seed"), config.get("seed")
    if isinstance(of_config, int) and of_state not in (None, of_config):
        raise CheckpointError(
            f"{path / STATE}: 'seed' is {of_state}, but {of_config} in {CONFIG} beside it: put "
            "back the file that is of another run"
        )


def _header(file: Path) -> list[str]:
    """The names of the tensors in a file."""
    try:
        with safe_open(file, "pt") as opened:  # checks places and lengths, but not this
            names = list(opened.keys())
        with file.open("rb") as raw:
            parse_json(raw.read(int.from_bytes(raw.read(8), "little")))
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error
    return names
