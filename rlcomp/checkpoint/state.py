"""State of a run's nodes: collecting and restoring tensors, generators and plain values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
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
from rlcomp.checkpoint.tree import join_tree, split_tree
from rlcomp.errors import CheckpointError

Value = TypeVar("Value")


@runtime_checkable
class HasRunState(Protocol):
    """A node with state that is neither parameter nor buffer.

    A class attribute ``begins_anew = True`` lets a run continue without the saved state.
    """

    def run_state(self) -> dict[str, Any]:
        """Return the state, as a tree of plain values and tensors."""
        ...

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore a state of :meth:`run_state`."""
        ...


@runtime_checkable
class Settles(Protocol):
    """A part with pending work that will change its state, or another part's."""

    def settle(self) -> None:
        """Wait for the pending work: until the next step, the state stays as it is."""
        ...


def parts(nodes: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield all modules of all nodes, by ``node:path.``, and the nodes that are not modules.

    A tensor belongs to the node that owns it: the walk does not descend into other nodes.
    """
    own = {id(node) for node in nodes.values()}
    for path, node in nodes.items():
        if isinstance(node, nn.Module):
            yield from _descend(f"{path}:", node, own)
        else:
            yield f"{path}:", node


def unsaved_state(stages: Iterable[nn.Module], nodes: Mapping[str, object]) -> list[str]:
    """Return the classes of stages, or of their parts, whose state no node saves."""
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
    """Return every parameter and buffer once, by name; tied weights under their first name."""
    tensors: dict[str, Tensor] = {}
    ids: set[int] = set()
    for prefix, module in parts(nodes):
        if isinstance(module, nn.Module):
            named = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            for name, tensor in named:
                if id(tensor) not in ids:
                    ids.add(id(tensor))
                    tensors[f"{prefix}{name}"] = tensor
    return tensors


def generators(nodes: Mapping[str, object]) -> dict[str, torch.Generator]:
    """Return every generator that is an attribute of a module, by name."""
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
    """Return all tensors and all other state of a run, after all parts have settled.

    A part that settled later could change a state that was already collected.
    """
    for _, part in parts(nodes):
        if isinstance(part, Settles):
            part.settle()
    tensors = {
        key: tensor.detach().to("cpu", copy=True).contiguous()
        for key, tensor in owned(nodes).items()
    }
    tensors |= {key: generator.get_state() for key, generator in generators(nodes).items()}
    state: dict[str, Any] = {}
    stateful = _stateful(nodes)
    for prefix, part in stateful.items():
        state[prefix], own = split_tree(part.run_state(), f"state/{prefix}")
        tensors |= own
    tree, own = split_tree(random_state(), "state/random")
    return tensors | own, {"nodes": state, "random": tree, "passing": _passing(stateful)}


def _stateful(nodes: Mapping[str, object]) -> dict[str, HasRunState]:
    return {prefix: part for prefix, part in parts(nodes) if isinstance(part, HasRunState)}


def _passing(stateful: Mapping[str, HasRunState]) -> list[str]:
    """Return the parts whose state may be missing, or left behind."""
    return [prefix for prefix, part in stateful.items() if getattr(part, "begins_anew", False)]


def restore(
    where: Path,
    nodes: Mapping[str, object],
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    redraw: bool,
    skipped: Collection[str] = (),
) -> None:
    """Restore the state of :func:`collect` into the nodes: all of it, or nothing.

    States are loaded first, since only they can fail; tensors and generators are checked before.

    Args:
        where: the checkpoint, for the messages.
        nodes: those of this run, by name.
        tensors: all tensors, by ``node:name``.
        state: all other state.
        redraw: leave generators as they are.
        skipped: nodes whose state is neither restored nor missed.

    Raises:
        CheckpointError: the nodes, or shapes or dtypes of their tensors, differ, or a state is
            invalid. Two things may be missing: the count of a policy's updates, because 0.1 did
            not save it, and the state of parts with ``begins_anew``.
    """
    tensors, codes = _but(tensors, skipped), _but(state["nodes"], skipped)
    drawn = _but(generators(nodes), skipped)
    stateful = _but(_stateful(nodes), skipped)
    passing = {*state.get("passing", ()), *_passing(stateful)}
    keys = {key for key in tensors if not key.startswith("state/")}
    own = _but(owned(nodes), skipped)
    here = {k: v for k, v in own.items() if k in keys or not _since_0_2(k)}
    differing = sorted((here.keys() | drawn.keys()) ^ keys) + sorted(
        (stateful.keys() ^ codes.keys()) - passing
    )
    if differing:
        raise CheckpointError(
            f"{where} is of another run: it and the config differ in '{differing[0]}'; resume with "
            "the config it was written with, or choose another directory"
        )
    check_tensors(where, here, tensors)
    with _checkpoint_errors(where):
        for key, generator in drawn.items():
            check_generator(key, generator, tensors[key])
        left = dict(tensors)  # join_tree takes tensors out
        random = check_random_state(join_tree(state["random"], left))
        states = {key: join_tree(code, left) for key, code in codes.items()}
    _load_states(where, {k: (part, states[k]) for k, part in stateful.items() if k in states})
    copy_tensors(here, tensors)
    if not redraw:
        for key, generator in drawn.items():
            generator.set_state(tensors[key])
        set_random_state(random)


def _but(values: Mapping[str, Value], skipped: Collection[str]) -> dict[str, Value]:
    """Return the values by ``node:name`` but those of some nodes."""
    return {key: value for key, value in values.items() if node_of(key) not in skipped}


def node_of(key: str) -> str:
    """Return the node of a key ``node:name``.

    Examples:
        >>> node_of("sft_learner.optimizer:state.0")
        'sft_learner.optimizer'
    """
    return key.partition(":")[0]


def check_tensors(where: Path, here: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Check that every tensor of a run was saved, with its shape and dtype, and is finite.

    Raises:
        CheckpointError: a tensor is missing, differs or is not finite; names it. Only the count of
            a policy's updates may be missing: 0.1 did not save it.
    """
    for key, tensor in here.items():
        there = tensors.get(key)
        if there is None and _since_0_2(key):
            continue
        if there is None or (tensor.shape, tensor.dtype) != (there.shape, there.dtype):
            was = "not" if there is None else f"{list(there.shape)} {there.dtype}"
            raise CheckpointError(
                f"{where} is of another run: '{key}' is {was} there, {list(tensor.shape)} "
                f"{tensor.dtype} here; resume with the config it was written with, or choose "
                "another directory"
            )
        if fault := _unlikely(tensor, there):
            raise CheckpointError(f"{where}: '{key}' {fault}: no run goes on from that")


def _unlikely(own: Tensor, saved: Tensor) -> str | None:
    """Describe a value that training cannot have produced; None if the tensor is possible.

    A buffer may hold infinities from the beginning. A single whole number is a count.
    """
    if own.is_floating_point() and bool(own.isfinite().all()) and not bool(saved.isfinite().all()):
        return "is not finite"
    counts = own.dtype == torch.int64 and own.dim() == 0 and int(own) >= 0
    return "is below 0" if counts and int(saved) < 0 else None


def copy_tensors(here: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy checked saved tensors into the tensors of the same names."""
    with torch.no_grad():
        for key, tensor in here.items():
            if key in tensors:
                tensor.copy_(tensors[key])


def _load_states(where: Path, states: Mapping[str, tuple[HasRunState, dict[str, Any]]]) -> None:
    """Load the state of every part; restore the old states if one is refused."""
    before: list[tuple[HasRunState, dict[str, Any]]] = []
    for key, (part, state) in states.items():
        code, tensors = split_tree(part.run_state(), key)  # a copy
        before.append((part, join_tree(code, tensors)))
        try:
            with _checkpoint_errors(where, f"the state of '{key}': "):
                part.load_run_state(state)
        except CheckpointError:
            for loaded, old in before:
                loaded.load_run_state(old)
            raise


@contextmanager
def _checkpoint_errors(where: Path, what: str = "") -> Iterator[None]:
    """Turn any error within the context into a ``CheckpointError`` of this checkpoint.

    A state is untrusted: a part may raise anything for a state that it never wrote.
    """
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{where}: {what}{error}") from error
    except Exception as error:
        raise CheckpointError(f"{where}: {what}{type(error).__name__}: {error}") from error


def _since_0_2(key: str) -> bool:
    """Return whether a tensor is a policy's count of updates, which checkpoints of 0.1 lack.

    It then stays 0: only versions of later rollouts are compared with it.
    """
    return key.replace(":", ".").endswith(".updates")
