"""Sharded weights of a trained model (FSDP2)."""

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

from rlcomp.engine.modules import GATHERED_CALL
from rlcomp.engine.transformer import Transformer
from rlcomp.errors import ConfigError
from rlcomp.parallel.weights import WriteRecord, all_reduce_gradients


def check_sharded(module: nn.Module) -> None:
    """Check that all weights of a model are trained: no adapters, no frozen layers.

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
    """Sharded weights (FSDP2): each rank has, and trains, its rows of every matrix.

    Passes run on a copy of the model whose layers are gathered for use. The owner on rank 0 stays
    full: it generates, is copied and saved, and gets the new values after each call of the learner.
    Optimisers get this rank's rows as plain tensors.

    Args:
        owner: the model.
        mesh: mesh of the ranks, with one dimension (parts) or two (copies, parts).

    Attributes:
        module: the copy of the model.
        parameters: the owner's parameters.
        parts: this rank's rows of each parameter of ``module``, in the order of ``parameters``.
    """

    is_sharded = True

    def __init__(self, owner: nn.Module, mesh: Any) -> None:  # noqa: ANN401
        self.owner, self.module, self.mesh = owner, _copy_model(owner), mesh
        self.roots = shard_model(self.module, mesh)
        names = [name for name, _ in owner.named_parameters()]
        self.parameters = [*owner.parameters()]
        self.shapes = [p.shape for p in self.parameters]
        self.written = WriteRecord(self.parameters)
        # The parameters of ``module``, in the order of ``parameters``: DTensors, but plain tensors
        # where a parameter is not sharded.
        by_name = dict(self.module.named_parameters())
        self._module_parameters = [by_name[name] for name in names]
        self.parts = [*map(_local_parameter, self._module_parameters)]
        self._index = {id(p): n for n, p in enumerate(self.parameters)}
        self._part_index = {id(p): n for n, p in enumerate(self.parts)}

    def part(self, parameter: Parameter) -> Parameter:
        """Return this rank's rows of a parameter, a plain tensor."""
        return self.parts[self._index[id(parameter)]]

    def is_shard(self, part: Tensor) -> bool:
        """Return whether other ranks have the rest of the parameter of a part."""
        index = self._part_index.get(id(part))
        return index is not None and isinstance(self._module_parameters[index], DTensor)

    def sum_over_shards(self, tensor: Tensor) -> Tensor:
        """Return the sum over the ranks that have the parts of a parameter."""
        result = tensor.clone()
        dist.all_reduce(result, group=self.mesh.get_group(self.mesh.ndim - 1))
        return result

    def full(self, part: Tensor, like: Tensor) -> Tensor:
        """Gather a tensor from the rows of all ranks, such as a moment of the part ``like``.

        A tensor of another shape, such as the count of steps, is returned unchanged.
        """
        if part.shape != like.shape:
            return part
        index = self._part_index[id(like)]
        parameter: Any = self._module_parameters[index]
        return DTensor.from_local(
            part,
            parameter.device_mesh,
            parameter.placements,
            run_check=False,
            shape=self.shapes[index],
            stride=parameter.stride(),
        ).full_tensor()

    def local(self, full: Tensor, like: Tensor) -> Tensor:
        """Return this rank's rows of a tensor of the whole parameter of the part ``like``.

        A tensor of another shape, such as the count of steps, is returned unchanged.
        """
        index = self._part_index[id(like)]
        parameter = self._module_parameters[index]
        if not isinstance(parameter, DTensor) or full.shape != self.shapes[index]:
            return full
        mesh = parameter.device_mesh
        chunks, rank = full.chunk(mesh.size(-1)), mesh.get_local_rank(mesh.ndim - 1)
        return chunks[rank].clone() if rank < len(chunks) else full[:0].clone()

    def stale(self) -> list[int]:
        """Return the indices of the owner's parameters that were written since :meth:`mark`."""
        return self.written.indices()

    @torch.no_grad()
    def refresh(self, indices: Sequence[int]) -> None:
        """Copy the parameters with these indices from rank 0, one at a time."""
        for index in indices:
            part = self.parts[index]
            full = torch.empty(self.shapes[index], dtype=part.dtype, device=part.device)
            if dist.get_rank() == 0:
                full.copy_(self.parameters[index])
            dist.broadcast(full, src=0)
            part.copy_(self.local(full, part))

    def collect_gradients(self) -> None:
        """Set ``.grad`` of the parts to the summed gradients (shards: by reduce-scatter)."""
        parameters = self._module_parameters
        all_reduce_gradients(
            [p for p in parameters if not isinstance(p, DTensor) and p.requires_grad]
        )
        for parameter, part in zip(parameters, self.parts, strict=True):
            if isinstance(parameter, DTensor):
                grad = parameter.grad
                part.grad = grad.to_local() if isinstance(grad, DTensor) else None
                parameter.grad = None

    def drop_gradients(self) -> None:
        """Delete gradients that were not collected."""
        for parameter in self._module_parameters:
            parameter.grad = None

    def reshard(self) -> None:
        """Reshard modules that a pass has left gathered, because they would keep old values."""
        for root in self.roots:
            root.reshard()

    @torch.no_grad()
    def write_back(self) -> None:
        """Copy the trained values into the owner on rank 0, one parameter at a time."""
        for parameter, trained in zip(self.parameters, self._module_parameters, strict=True):
            full: Tensor = trained.full_tensor() if isinstance(trained, DTensor) else trained
            if dist.get_rank() == 0:
                parameter.copy_(full)

    def mark(self) -> None:
        """Start a new record of writes into the owner's parameters."""
        self.written.mark()

    def free_owner(self) -> None:
        """Free the owner's tensors on a rank that never reads them."""
        for parameter in self.parameters:
            parameter.data = parameter.data.new_empty(0)


def _local_parameter(parameter: Parameter) -> Parameter:
    """Return this rank's part of a parameter as a plain tensor that shares its memory."""
    if not isinstance(parameter, DTensor):
        return parameter
    with torch.no_grad():
        return Parameter(parameter.to_local(), requires_grad=parameter.requires_grad)


def _copy_model(owner: nn.Module) -> nn.Module:
    """Copy a model: its weights and the objects that read them; other attributes are shared."""
    # The memo of deepcopy: objects in it are not copied.
    shared = {
        id(value): value
        for value in vars(owner).values()
        if not isinstance(value, (dict, set, list, Transformer, Tensor))
        and not getattr(value, "reads_weights", False)
    }
    return copy.deepcopy(owner, shared)


T = TypeVar("T")


def shard_model(module: nn.Module, mesh: Any) -> list[FSDPModule]:  # noqa: ANN401
    """Shard the parameters of the transformers models in a module; return the outermost models.

    A layer is gathered for its own forward and backward pass; embedding, last norm and head are
    gathered from the first to the last layer.

    Args:
        module: a module with models of transformers; its other parameters are not sharded.
        mesh: mesh of the ranks.

    Raises:
        ConfigError: the module has no such model, or transformers does not name the layers of one.
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
    return [_shard_layers(model, mesh) for model in models]


def _shard_layers(model: PreTrainedModel, mesh: Any) -> FSDPModule:  # noqa: ANN401
    """Shard a model of transformers layer by layer; return the model."""
    kinds = {*(model._no_split_modules or ())}
    layers = [part for part in model.modules() if type(part).__name__ in kinds]
    if not layers:
        raise ConfigError(
            f"parallel=shard: transformers names no layers of {type(model).__name__} "
            "(_no_split_modules): use parallel=replicate"
        )
    scalars = {p for p in model.parameters() if p.ndim == 0}  # they have no rows to divide
    for part in (*layers, model):
        setattr(part, GATHERED_CALL, MethodType(_run_gathered, part))
        # The model itself stays gathered after its forward pass: its head is read then.
        sharded: FSDPModule = fully_shard(
            part, mesh=mesh, reshard_after_forward=part is not model, ignored_params=scalars
        )
        register_fsdp_forward_method(part, GATHERED_CALL)
        # Losses are sums over the whole step: gradients are added up, not averaged.
        sharded.set_gradient_divide_factor(1.0)
        # Gloo cannot scale while it sums.
        sharded.set_force_sum_reduction_for_comms(True)
    return sharded


def _run_gathered(self: nn.Module, function: Callable[..., T], *arguments: object) -> T:
    """Run a function while this module's parameters are gathered."""
    del self
    return function(*arguments)
