"""Collect and restore the state of a run's nodes: tensors, generators and plain values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from rlcomp.checkpoint.random_state import (
    check_generator,
    check_random_state,
    random_state,
    set_random_state,
)
from rlcomp.checkpoint.state_fields import join_tree, split_tree
from rlcomp.errors import CheckpointError, ConfigError

Value = TypeVar("Value")


@runtime_checkable
class HasRunState(Protocol):
    """Interface of parts with state beside parameters and buffers.

    A class attribute ``begins_anew = True`` lets a run continue without the saved state.
    """

    def run_state(self) -> dict[str, Any]:
        """Return the state as a tree of plain values and tensors."""
        ...

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore a state of :meth:`run_state`."""
        ...


@runtime_checkable
class Settles(Protocol):
    """Interface of parts with pending work that will change their state or another part's."""

    def settle(self) -> None:
        """Complete the pending work, so that no state changes until the next step."""
        ...


def named_parts(nodes: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the modules of all nodes by ``node:path.``, and the other nodes by ``node:``.

    The modules of a node do not include other nodes: a tensor belongs to one node.
    """
    ids = {id(node) for node in nodes.values()}
    for path, node in nodes.items():
        if isinstance(node, nn.Module):
            yield from _descend(f"{path}:", node, ids)
        else:
            yield f"{path}:", node


def check_saved(stages: Iterable[nn.Module], nodes: Mapping[str, object]) -> None:
    """Check that checkpoints of the nodes hold the state of every stage.

    Raises:
        ConfigError: a module of a stage has state but belongs to no node.
    """
    known = {
        id(m) for node in nodes.values() if isinstance(node, nn.Module) for m in node.modules()
    }
    for module in chain.from_iterable(stage.modules() for stage in stages):
        if id(module) not in known and _has_state(module):
            kind = type(module).__name__
            raise ConfigError(
                f"{kind} has state that no checkpoint would hold: make it a node, "
                f'make("a name", {kind}, ...)'
            )


def _has_state(module: nn.Module) -> bool:
    tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    generator = any(isinstance(value, torch.Generator) for value in vars(module).values())
    return bool(tensors) or generator or isinstance(module, HasRunState)


def owned_tensors(nodes: Mapping[str, object]) -> dict[str, Tensor]:
    """Return every parameter and buffer by ``node:name``; tied weights once, by the first name."""
    tensors: dict[str, Tensor] = {}
    ids: set[int] = set()
    for prefix, module in named_parts(nodes):
        if isinstance(module, nn.Module):
            named = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            for name, tensor in named:
                if id(tensor) not in ids:
                    ids.add(id(tensor))
                    tensors[f"{prefix}{name}"] = tensor
    return tensors


def generators(nodes: Mapping[str, object]) -> dict[str, torch.Generator]:
    """Return the generators among the attributes of modules, by ``node:name``."""
    return {
        f"{prefix}{name}": value
        for prefix, part in named_parts(nodes)
        if isinstance(part, nn.Module)
        for name, value in vars(part).items()
        if isinstance(value, torch.Generator)
    }


def _descend(prefix: str, module: nn.Module, ids: set[int]) -> Iterator[tuple[str, nn.Module]]:
    yield prefix, module
    for name, child in module.named_children():
        if id(child) not in ids:
            yield from _descend(f"{prefix}{name}.", child, ids)


def collect(nodes: Mapping[str, object]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a run by name, and all other state.

    All parts settle first: a part that settles later could change a state that is already
    collected.

    Returns:
        The tensors, copied to the CPU: parameters, buffers and generators by ``node:name``, and
        tensors of other states by a name that begins with ``state/``. The other state has
        ``nodes``, ``random`` and ``passing`` (the parts whose state may be missing).
    """
    for _, part in named_parts(nodes):
        if isinstance(part, Settles):
            part.settle()
    tensors = {
        key: tensor.detach().to("cpu", copy=True).contiguous()
        for key, tensor in owned_tensors(nodes).items()
    }
    tensors |= {key: generator.get_state() for key, generator in generators(nodes).items()}
    state: dict[str, Any] = {}
    stateful = _stateful(nodes)
    for prefix, part in stateful.items():
        state[prefix], part_tensors = split_tree(part.run_state(), f"state/{prefix}")
        tensors |= part_tensors
    tree, random_tensors = split_tree(random_state(), "state/random")
    tensors |= random_tensors
    return tensors, {"nodes": state, "random": tree, "passing": _optional_parts(stateful)}


def _stateful(nodes: Mapping[str, object]) -> dict[str, HasRunState]:
    return {prefix: part for prefix, part in named_parts(nodes) if isinstance(part, HasRunState)}


def _optional_parts(stateful: Mapping[str, HasRunState]) -> list[str]:
    """Return the parts that can continue without their saved state."""
    return [prefix for prefix, part in stateful.items() if getattr(part, "begins_anew", False)]


def restore(
    path: Path,
    nodes: Mapping[str, object],
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    keep_generators: bool,
    skipped: Collection[str] = (),
) -> None:
    """Restore the state of :func:`collect` into the nodes: all of it, or nothing.

    Tensors and generators are checked first. Then the states of parts are loaded, which may fail.
    Copies of tensors and generators, which cannot fail, come last.

    Args:
        path: the checkpoint's path, for messages.
        nodes: the nodes of this run, by name.
        tensors: the saved tensors, as :func:`collect` names them.
        state: all other saved state.
        keep_generators: whether generators keep their current state.
        skipped: nodes whose saved state is ignored.

    Raises:
        CheckpointError: the nodes, or shapes or dtypes of their tensors, differ, or a state is
            invalid. Two things may be missing: the count of a policy's updates (0.1 did not save
            it) and the state of parts with ``begins_anew``.
    """
    tensors, codes = _without(tensors, skipped), _without(state["nodes"], skipped)
    own_generators = _without(generators(nodes), skipped)
    stateful = _without(_stateful(nodes), skipped)
    optional = {*state.get("passing", ()), *_optional_parts(stateful)}
    keys = {key for key in tensors if not key.startswith("state/")}
    own = {
        key: tensor
        for key, tensor in _without(owned_tensors(nodes), skipped).items()
        if key in keys or not _is_update_count(key)
    }
    differences = sorted((own.keys() | own_generators.keys()) ^ keys)
    differences += sorted((stateful.keys() ^ codes.keys()) - optional)
    if differences:
        raise CheckpointError(
            f"{path} is of another run: it and the config differ in '{differences[0]}'; resume "
            "with the config it was written with, or choose another directory"
        )
    check_tensors(path, own, tensors)
    with _checkpoint_errors(path):
        for key, generator in own_generators.items():
            check_generator(key, generator, tensors[key])
        remaining = dict(tensors)  # join_tree removes tensors
        random = check_random_state(join_tree(state["random"], remaining))
        states = {key: join_tree(code, remaining) for key, code in codes.items()}
    _load_states(path, {k: (part, states[k]) for k, part in stateful.items() if k in states})
    copy_tensors(own, tensors)
    if not keep_generators:
        for key, generator in own_generators.items():
            generator.set_state(tensors[key])
        set_random_state(random)


def _without(values: Mapping[str, Value], skipped: Collection[str]) -> dict[str, Value]:
    """Return the values by ``node:name``, except for the skipped nodes."""
    return {key: value for key, value in values.items() if node_of_key(key) not in skipped}


def node_of_key(key: str) -> str:
    """Return the node of a key ``node:name``.

    Examples:
        >>> node_of_key("sft_learner.optimizer:state.0")
        'sft_learner.optimizer'
    """
    return key.partition(":")[0]


def check_tensors(path: Path, own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Check that every tensor of a run was saved with its shape and dtype, and is plausible.

    Raises:
        CheckpointError: a tensor is missing, differs or is not finite; the message names it. Only
            the count of a policy's updates may be missing: 0.1 did not save it.
    """
    for key, tensor in own.items():
        saved = tensors.get(key)
        if saved is None and _is_update_count(key):
            continue
        if saved is None or (tensor.shape, tensor.dtype) != (saved.shape, saved.dtype):
            was = "not" if saved is None else f"{list(saved.shape)} {saved.dtype}"
            raise CheckpointError(
                f"{path} is of another run: '{key}' is {was} there, {list(tensor.shape)} "
                f"{tensor.dtype} here; resume with the config it was written with, or choose "
                "another directory"
            )
        if fault := _implausible(tensor, saved):
            raise CheckpointError(f"{path}: '{key}' {fault}: no run goes on from that")


def _implausible(own: Tensor, saved: Tensor) -> str | None:
    """Describe a value that training cannot have produced; None if the tensor is possible.

    A buffer may have infinities from the start. A single integer that is not negative is a count.
    """
    if own.is_floating_point() and bool(own.isfinite().all()) and not bool(saved.isfinite().all()):
        return "is not finite"
    counts = own.dtype == torch.int64 and own.dim() == 0 and int(own) >= 0
    return "is below 0" if counts and int(saved) < 0 else None


def copy_tensors(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy checked saved tensors into the tensors of the same names."""
    with torch.no_grad():
        for key, tensor in own.items():
            if key in tensors:
                tensor.copy_(tensors[key])


def _load_states(path: Path, states: Mapping[str, tuple[HasRunState, dict[str, Any]]]) -> None:
    """Load the state of every part; restore the old states if one is refused."""
    before: list[tuple[HasRunState, dict[str, Any]]] = []
    for key, (part, state) in states.items():
        code, tensors = split_tree(part.run_state(), key)  # a copy
        before.append((part, join_tree(code, tensors)))
        try:
            with _checkpoint_errors(path, f"the state of '{key}': "):
                part.load_run_state(state)
        except CheckpointError:
            for loaded, old in before:
                loaded.load_run_state(old)
            raise


@contextmanager
def _checkpoint_errors(path: Path, prefix: str = "") -> Iterator[None]:
    """Turn any error within the context into a ``CheckpointError``: states are untrusted."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {prefix}{error}") from error
    except Exception as error:
        raise CheckpointError(f"{path}: {prefix}{type(error).__name__}: {error}") from error


def _is_update_count(key: str) -> bool:
    """Return whether a tensor is a policy's count of updates; checkpoints of 0.1 lack it."""
    return key.replace(":", ".").endswith(".updates")
