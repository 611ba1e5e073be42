"""Checkpoints: a directory a step, safetensors and JSON, written atomically, resumed exactly."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rlcomp.check import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.errors import CheckpointError
from rlcomp.io.tree import join_tree, split_tree

FORMAT = 1


@runtime_checkable
class HasRunState(Protocol):
    """A node with state that is neither parameter nor buffer."""

    def run_state(self) -> dict[str, Any]:
        """The state, as a tree of plain values and tensors."""
        ...

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Continue from such a state."""
        ...


class Checkpoint(Component):
    """Saves the run under ``directory/step-NNNNNNNN``; only the newest ``keep`` stay.

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
        """Write one checkpoint; a reader sees all of it or nothing."""
        tensors, state = collect(nodes)
        state["place"] = place
        final = self.directory / f"step-{place['total']:08d}"
        draft = self.directory / f".tmp-{final.name}-{os.getpid()}"
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
        self._prune(final)
        return final

    def _prune(self, newest: Path) -> None:
        """Keep the newest; any later one is of a future that this run has left."""
        found = sorted(self.directory.glob("step-*"))
        mine = [path for path in found if path <= newest]
        for old in {*found} - {*mine[-self.keep :]}:
            shutil.rmtree(old)
        for stale in self.directory.glob(".tmp-*"):
            shutil.rmtree(stale)

    def newest(self) -> Saved | None:
        """The newest checkpoint that is whole; broken ones are passed over with a warning."""
        return _newest_whole(self.directory.glob("step-*"))


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
    """A checkpoint whose files are whole."""

    path: Path

    def restore(self, nodes: Mapping[str, object], seed: int | None = None) -> dict[str, Any]:
        """Put everything back; returns where the run stood.

        Args:
            nodes: the run's nodes, by name.
            seed: the run's seed; if it is not the saved run's, what is drawn from here on is the
                new seed's (several seeds from one warm start), and only the rest comes back.

        Raises:
            CheckpointError: the checkpoint belongs to a run of other nodes.
        """
        tensors = load_file(self.path / "tensors.safetensors")
        state = json.loads((self.path / "state.json").read_text())
        place: dict[str, Any] = state["place"]
        redraw = seed is not None and seed != place.get("seed", seed)
        _put_back(self.path, nodes, tensors, state, redraw)
        return place

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


def parts(nodes: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Every module of every node once, by ``node:place in it.``; and the nodes that are no modules.

    A tensor belongs to the node that owns it: the walk does not descend into other nodes.
    """
    own = {id(node) for node in nodes.values()}
    for path, node in nodes.items():
        if isinstance(node, nn.Module):
            yield from _descend(f"{path}:", node, own)
        else:
            yield f"{path}:", node


def forgotten(stages: Iterable[nn.Module], nodes: Mapping[str, object]) -> list[str]:
    """The classes of stages, or of parts of them, whose state no node would save."""
    known = {
        id(m) for node in nodes.values() if isinstance(node, nn.Module) for m in node.modules()
    }
    return [
        type(module).__name__
        for stage in stages
        for module in stage.modules()
        if id(module) not in known and _has_state(module)
    ]


def _has_state(module: nn.Module) -> bool:
    own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    drawing = any(isinstance(value, torch.Generator) for value in vars(module).values())
    return bool(own) or drawing or isinstance(module, HasRunState)


def owned(nodes: Mapping[str, object]) -> dict[str, Tensor]:
    """Every parameter and buffer once, by name; tied weights under their first."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for prefix, module in parts(nodes):
        if isinstance(module, nn.Module):
            named = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            for name, tensor in named:
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    found[f"{prefix}{name}"] = tensor
    return found


def generators(nodes: Mapping[str, object]) -> dict[str, torch.Generator]:
    """Every generator that is an attribute of a module, by name."""
    return {
        f"{prefix}{name}": value
        for prefix, part in parts(nodes)
        if isinstance(part, nn.Module)
        for name, value in vars(part).items()
        if isinstance(value, torch.Generator)
    }


def _descend(prefix: str, module: nn.Module, own: set[int]) -> Iterator[tuple[str, nn.Module]]:
    yield prefix, module
    for name, child in module.named_children():
        if id(child) not in own:
            yield from _descend(f"{prefix}{name}.", child, own)


def collect(nodes: Mapping[str, object]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors and all other state of a run."""
    tensors = {
        key: tensor.detach().to("cpu", copy=True).contiguous()
        for key, tensor in owned(nodes).items()
    }
    tensors |= {key: generator.get_state() for key, generator in generators(nodes).items()}
    state: dict[str, Any] = {}
    for prefix, part in parts(nodes):
        if isinstance(part, HasRunState):
            state[prefix], found = split_tree(part.run_state(), f"state/{prefix}")
            tensors |= found
    tree, found = split_tree(_random_state(), "state/random")
    return tensors | found, {"nodes": state, "random": tree}


def _put_back(
    where: Path,
    nodes: Mapping[str, object],
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    redraw: bool,
) -> None:
    here, drawn = owned(nodes), generators(nodes)
    saved = {key for key in tensors if not key.startswith("state/")}
    stateful = {prefix: part for prefix, part in parts(nodes) if isinstance(part, HasRunState)}
    differing = sorted((here.keys() | drawn.keys()) ^ saved) + sorted(
        stateful.keys() ^ state["nodes"].keys()
    )
    if differing:
        raise CheckpointError(
            f"{where} is of another run: it and the config differ in '{differing[0]}'; resume with "
            "the config it was written with, or choose another directory"
        )
    with torch.no_grad():
        for key, tensor in here.items():
            there = tensors[key]
            if (tensor.shape, tensor.dtype) != (there.shape, there.dtype):
                raise CheckpointError(
                    f"{where} is of another run: '{key}' is {list(there.shape)} {there.dtype} "
                    f"there, {list(tensor.shape)} {tensor.dtype} here; resume with the config it "
                    "was written with, or choose another directory"
                )
            tensor.copy_(tensors[key])
    for key, generator in drawn.items() if not redraw else ():
        generator.set_state(tensors[key])
    for prefix, part in stateful.items():
        part.load_run_state(join_tree(state["nodes"][prefix], tensors))
    if not redraw:
        _set_random_state(join_tree(state["random"], tensors))


def _random_state() -> dict[str, Any]:
    name, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": list(torch.cuda.get_rng_state_all()) if torch.cuda.is_available() else [],
        "python": random.getstate(),
        "numpy": [name, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
    }


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
