"""Sharded weights of a trained model (FSDP2): each rank has a part of every layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from torch.nn import Parameter
from transformers import PreTrainedModel

from rlcomp.engine.transformer import GATHERED_CALL, Transformer
from rlcomp.errors import ConfigError
from rlcomp.parallel.weights import WriteRecord, summed_gradients


def check_sharded(module: nn.Module) -> None:
    """Refuse a model whose weights are not all trained: adapters, frozen layers.

    Raises:
        ConfigError: names a frozen parameter.
    """
    frozen = [name for name, p in module.named_parameters() if not p.requires_grad]
    if frozen:
        raise ConfigError(
            f"parallel=shard with frozen weights ({frozen[0]}): with adapters little is trained, "
            "and there is little to put into parts; use parallel=replicate, or adapter=none"
        )


class ShardedWeights:
    """Weights in parts (FSDP2): each rank holds, and steps, its rows of every matrix.

    Passes run on a copy of the model whose layers are put together while they are read. The owner
    on rank 0 stays whole: it generates, is copied and saved, and has the new values behind each
    call of the learner. Optimisers are given this rank's rows as plain tensors.

    Args:
        owner: the model.
        mesh: of the ranks, one dimension (parts), or two (copies, parts).
    """

    in_parts = True

    def __init__(self, owner: nn.Module, mesh: Any) -> None:  # noqa: ANN401
        self.owner, self.module, self.mesh = owner, _copied(owner), mesh
        self.roots = shard_model(self.module, mesh)
        names = [name for name, _ in owner.named_parameters()]
        self.parameters = [*owner.parameters()]
        self.shapes = [p.shape for p in self.parameters]
        self.written = WriteRecord(self.parameters)
        there = dict(self.module.named_parameters())
        self.held = [there[name] for name in names]
        self.parts = [_part(held) for held in self.held]
        self._number = {id(p): n for n, p in enumerate(self.parameters)}
        self._of_part = {id(p): n for n, p in enumerate(self.parts)}

    def part(self, parameter: Parameter) -> Parameter:
        """Return this rank's rows of a parameter, a plain tensor."""
        return self.parts[self._number[id(parameter)]]

    def divided(self, part: Tensor) -> bool:
        """Return whether a part is some of a parameter."""
        number = self._of_part.get(id(part))
        return number is not None and isinstance(self.held[number], DTensor)

    def total_of_parts(self, tensor: Tensor) -> Tensor:
        """Return the sum over the ranks that have the parts of a parameter."""
        result = tensor.clone()
        dist.all_reduce(result, group=self.mesh.get_group(self.mesh.ndim - 1))
        return result

    def whole(self, part: Tensor, like: Tensor) -> Tensor:
        """Return the whole of a tensor like a part; a number (count of steps) is returned as is."""
        number = self._of_part[id(like)]
        held: Any = self.held[number]
        if part.shape != like.shape:
            return part
        shape = self.shapes[number]
        return DTensor.from_local(
            part,
            held.device_mesh,
            held.placements,
            run_check=False,
            shape=shape,
            stride=held.stride(),
        ).full_tensor()

    def own(self, whole: Tensor, like: Tensor) -> Tensor:
        """Return this rank's rows of a whole tensor."""
        number = self._of_part[id(like)]
        held = self.held[number]
        if not isinstance(held, DTensor) or whole.shape != self.shapes[number]:
            return whole
        shards = held.device_mesh.size(-1)
        chunks = [*whole.chunk(shards)]
        mine = held.device_mesh.get_local_rank(held.device_mesh.ndim - 1)
        return chunks[mine].clone() if mine < len(chunks) else whole[:0].clone()

    def stale(self) -> list[int]:
        """Return the numbers of the owner's parameters that were written since :meth:`mark`."""
        return self.written.numbers()

    @torch.no_grad()
    def refresh(self, parts: Sequence[int]) -> None:
        """Take rank 0's values of these parameters; one is whole at a time."""
        for number in parts:
            part = self.parts[number]
            whole = torch.empty(self.shapes[number], dtype=part.dtype, device=part.device)
            if dist.get_rank() == 0:
                whole.copy_(self.parameters[number])
            dist.broadcast(whole, src=0)
            part.copy_(self.own(whole, part))

    def collect(self) -> None:
        """Put summed gradients into ``.grad`` of the parts (summed by reduce-scatter already)."""
        loose = [p for p in self.held if not isinstance(p, DTensor) and p.requires_grad]
        summed_gradients(loose)
        for held, part in zip(self.held, self.parts, strict=True):
            if isinstance(held, DTensor):
                grad = held.grad
                part.grad = grad.to_local() if isinstance(grad, DTensor) else None
                held.grad = None

    def forget(self) -> None:
        """Drop gradients that were not collected."""
        for held in self.held:
            held.grad = None

    def rest(self) -> None:
        """Reshard modules that a pass left whole: new values would not reach them."""
        for root in self.roots:
            root.reshard()

    @torch.no_grad()
    def gather(self) -> None:
        """Give rank 0's owner the trained values; one parameter is whole at a time."""
        for number, parameter in enumerate(self.parameters):
            whole: Tensor = self.held[number]
            if isinstance(whole, DTensor):
                whole = whole.full_tensor()
            if dist.get_rank() == 0:
                parameter.copy_(whole)

    def mark(self) -> None:
        """Start watching for writes into the owner's parameters."""
        self.written.mark()

    def leave_whole(self) -> None:
        """Free the owner's own copy, on a rank that never reads it."""
        for parameter in self.parameters:
            parameter.data = parameter.data.new_empty(0)


def _part(held: Parameter) -> Parameter:
    if not isinstance(held, DTensor):
        return held
    with torch.no_grad():
        return Parameter(held.to_local(), requires_grad=held.requires_grad)


def _copied(owner: nn.Module) -> nn.Module:
    """Copy a model with its weights; its attributes that are no modules stay shared.

    Objects that read the weights (our own forward pass) are copied, so that they read the copy's.
    """
    shared = {
        id(value): value
        for value in vars(owner).values()
        if not isinstance(value, (dict, set, list, Transformer, Tensor))
        and not getattr(value, "reads_weights", False)
    }
    return copy.deepcopy(owner, shared)


T = TypeVar("T")


def shard_model(module: nn.Module, mesh: Any) -> list[FSDPModule]:  # noqa: ANN401
    """Put the parameters of the models in a module into parts; others are left alone.

    A layer is whole while it runs, in the forward pass and in the backward pass; what is in no
    layer (embedding, last norm, head) from the first to the last of both.

    Args:
        module: holds models of transformers.
        mesh: of the ranks.

    Returns:
        The outermost models.

    Raises:
        ConfigError: there is none, or transformers does not say what its layers are.
    """
    inside = {
        id(part)
        for model in module.modules()
        if isinstance(model, PreTrainedModel)
        for part in model.modules()
        if part is not model
    }
    models = [m for m in module.modules() if isinstance(m, PreTrainedModel) and id(m) not in inside]
    if not models:
        raise ConfigError(
            f"parallel=shard puts the layers of language models into parts, and "
            f"{type(module).__name__} holds none: use parallel=replicate"
        )
    return [_sharded(model, mesh) for model in models]


def _sharded(model: PreTrainedModel, mesh: Any) -> FSDPModule:  # noqa: ANN401
    kinds = {*(model._no_split_modules or ())}
    layers = [part for part in model.modules() if type(part).__name__ in kinds]
    if not layers:
        raise ConfigError(
            f"parallel=shard: transformers names no layers of {type(model).__name__} "
            "(_no_split_modules): use parallel=replicate"
        )
    single = {p for p in model.parameters() if p.ndim == 0}  # has no rows
    for part in (*layers, model):
        setattr(part, GATHERED_CALL, MethodType(_run, part))
        # The model itself stays whole behind its forward pass: its head is read then.
        sharded: FSDPModule = fully_shard(
            part, mesh=mesh, reshard_after_forward=part is not model, ignored_params=single
        )
        register_fsdp_forward_method(part, GATHERED_CALL)
        # Losses are sums over the whole step already: gradients are added up, not averaged.
        sharded.set_gradient_divide_factor(1.0)
        # Gloo cannot scale while it sums.
        sharded.set_force_sum_reduction_for_comms(True)
    return sharded


def _run(self: nn.Module, function: Callable[..., T], *given: object) -> T:
    """Run a function while this module's parameters are whole."""
    del self
    return function(*given)
