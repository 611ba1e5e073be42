"""Collects and restores the state of a run's nodes: tensors, generators, plain values."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from rlcomp.errors import CheckpointError
from rlcomp.io.tree import join_tree, split_tree


@runtime_checkable
class HasRunState(Protocol):
    """A node with state that is neither parameter nor buffer.

    A class attribute ``begins_anew = True`` says that a run may go on without the saved state.
    """

    def run_state(self) -> dict[str, Any]:
        """The state, as a tree of plain values and tensors."""
        ...

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore such a state."""
        ...


def parts(nodes: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """All modules of all nodes, by ``node:path.``, and the nodes that are not modules.

    A tensor belongs to the node that owns it: the walk does not descend into other nodes.
    """
    own = {id(node) for node in nodes.values()}
    for path, node in nodes.items():
        if isinstance(node, nn.Module):
            yield from _descend(f"{path}:", node, own)
        else:
            yield f"{path}:", node


def unsaved_state(stages: Iterable[nn.Module], nodes: Mapping[str, object]) -> list[str]:
    """Unsaved state: classes of stages, or of their parts, whose state no node saves."""
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
    """Every parameter and buffer once, by name; tied weights under their first name."""
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
    stateful = _stateful(nodes)
    for prefix, part in stateful.items():
        state[prefix], found = split_tree(part.run_state(), f"state/{prefix}")
        tensors |= found
    tree, found = split_tree(_random_state(), "state/random")
    return tensors | found, {"nodes": state, "random": tree, "passing": _passing(stateful)}


def _stateful(nodes: Mapping[str, object]) -> dict[str, HasRunState]:
    return {prefix: part for prefix, part in parts(nodes) if isinstance(part, HasRunState)}


def _passing(stateful: Mapping[str, HasRunState]) -> list[str]:
    """Parts whose state a run may begin without, or leave behind."""
    return [prefix for prefix, part in stateful.items() if getattr(part, "begins_anew", False)]


def restore(
    where: Path,
    nodes: Mapping[str, object],
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    redraw: bool,
) -> None:
    """Restore into the nodes the state that :func:`collect` returned.

    Args:
        where: the checkpoint, for the messages.
        nodes: those of this run, by name.
        tensors: all tensors, by ``node:name``.
        state: all other state.
        redraw: leave what draws random numbers as it is here.

    Raises:
        CheckpointError: the nodes, or shapes or dtypes of their tensors, are others. What may be
            missing is the count of a policy's updates, which 0.1 did not save, and the state of
            parts that may begin anew (``begins_anew``).
    """
    here, drawn, stateful = owned(nodes), generators(nodes), _stateful(nodes)
    passing = {*state.get("passing", ()), *_passing(stateful)}
    saved = {key for key in tensors if not key.startswith("state/")}
    here = {key: tensor for key, tensor in here.items() if key in saved or not _since_0_2(key)}
    differing = sorted((here.keys() | drawn.keys()) ^ saved) + sorted(
        (stateful.keys() ^ state["nodes"].keys()) - passing
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
        if prefix in state["nodes"]:
            part.load_run_state(join_tree(state["nodes"][prefix], tensors))
    if not redraw:
        _set_random_state(join_tree(state["random"], tensors))


def _since_0_2(key: str) -> bool:
    """Whether checkpoints of 0.1 lack a tensor: how many updates a policy has had.

    It stays as it was built, 0: what is compared are the versions of rollouts made from here on.
    """
    return key.replace(":", ".").endswith(".updates")


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
