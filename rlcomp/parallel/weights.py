"""Weights of a trained model on several ranks: the interface, and replicated weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import Parameter


class Weights(Protocol):
    """Interface of the weights of one model on this rank.

    Attributes:
        owner: the model of the run.
        module: the model that passes run on.
        is_sharded: whether each rank has a part of the parameters, and a pass needs all ranks.
    """

    owner: nn.Module
    module: nn.Module
    is_sharded: bool

    def part(self, parameter: Parameter) -> Parameter:
        """Return the part of a parameter of the owner that this rank trains."""
        ...

    def is_shard(self, part: Tensor) -> bool:
        """Return whether other ranks have the rest of the parameter of a part."""
        ...

    def sum_over_shards(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over the ranks that have the parts of one parameter."""
        ...

    def full(self, part: Tensor, like: Tensor) -> Tensor:
        """Gather a tensor, such as a moment, from the parts of all ranks.

        ``like`` is this rank's part of the parameter. A tensor of another shape than ``like``, such
        as the count of steps, is returned unchanged.
        """
        ...

    def local(self, full: Tensor, like: Tensor) -> Tensor:
        """Return this rank's part of a full tensor, such as a moment.

        ``like`` is this rank's part of the parameter. A tensor of another shape than the whole
        parameter, such as the count of steps, is returned unchanged.
        """
        ...

    def stale(self) -> list[int]:
        """Return the indices of the owner's parameters that were written since :meth:`mark`."""
        ...

    def refresh(self, indices: Sequence[int]) -> None:
        """Copy the parameters with these indices from rank 0."""
        ...

    def collect_gradients(self) -> None:
        """Set ``.grad`` of the parts to the gradients of the passes, summed over ranks."""
        ...

    def drop_gradients(self) -> None:
        """Delete gradients that were not collected."""
        ...

    def reshard(self) -> None:
        """Drop parameters that a pass without gradient has gathered."""
        ...

    def write_back(self) -> None:
        """Copy the trained values into the owner on rank 0."""
        ...

    def mark(self) -> None:
        """Start a new record of writes into the owner's parameters."""
        ...

    def free_owner(self) -> None:
        """Free the owner's tensors, on a rank other than 0, if passes do not read them."""
        ...


class Parallel(Protocol):
    """Interface of parallel strategies: ``parallel=replicate``, ``parallel=shard``.

    Attributes:
        timeout: seconds that a rank waits for the others.
    """

    timeout: float

    def weights(self, module: nn.Module) -> Weights:
        """Return the weights of a trained model; all processes must have joined.

        Raises:
            ConfigError: the strategy does not support the model; the message names reason and
                remedy.
        """
        ...


class WriteRecord:
    """Record of writes into tensors, by torch's version counters."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.versions = [-1] * len(tensors)

    def indices(self) -> list[int]:
        """Return the indices of the tensors written since :meth:`mark`; without a mark, all."""
        return [n for n, tensor in enumerate(self.tensors) if tensor._version != self.versions[n]]

    def mark(self) -> None:
        """Start a new record."""
        self.versions = [tensor._version for tensor in self.tensors]


def all_reduce_gradients(parameters: Sequence[Parameter]) -> None:
    """Sum ``.grad`` over ranks, one flat tensor per dtype.

    A gradient of None counts as 0; it stays None if all ranks have None.
    """
    if not parameters:
        return
    counts = torch.tensor([float(p.grad is not None) for p in parameters])
    counts = counts.to(parameters[0].device)
    dist.all_reduce(counts)
    trained = [p for p, count in zip(parameters, counts.tolist(), strict=True) if count]
    for dtype in dict.fromkeys(p.dtype for p in trained):
        group = [p for p in trained if p.dtype == dtype]
        flat = torch.cat(
            [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in group]
        )
        dist.all_reduce(flat)
        sizes = [p.numel() for p in group]
        for p, part in zip(group, torch.split(flat, sizes), strict=True):
            p.grad = part.view_as(p).clone()


class ReplicatedWeights:
    """Full weights of a model on every rank; gradients are summed once per step."""

    is_sharded = False

    def __init__(self, owner: nn.Module) -> None:
        self.owner = self.module = owner
        self.parameters = [*owner.parameters()]
        self.written = WriteRecord(self.parameters)

    def part(self, parameter: Parameter) -> Parameter:
        """Return the parameter."""
        return parameter

    def is_shard(self, part: Tensor) -> bool:
        """Return False: parameters are full."""
        del part
        return False

    def sum_over_shards(self, tensor: Tensor) -> Tensor:
        """Return the tensor."""
        return tensor

    def full(self, part: Tensor, like: Tensor) -> Tensor:
        """Return the tensor."""
        del like
        return part

    local = full

    def stale(self) -> list[int]:
        """Return the indices of the owner's parameters that were written since :meth:`mark`."""
        return self.written.indices()

    @torch.no_grad()
    def refresh(self, indices: Sequence[int]) -> None:
        """Copy the parameters with these indices from rank 0."""
        for index in indices:
            dist.broadcast(self.parameters[index].detach(), src=0)

    def collect_gradients(self) -> None:
        """Sum ``.grad`` of the parameters over ranks."""
        all_reduce_gradients([p for p in self.parameters if p.requires_grad])

    def drop_gradients(self) -> None:
        """Delete gradients that were not collected."""
        for parameter in self.parameters:
            parameter.grad = None

    def reshard(self) -> None:
        """No-op."""

    def write_back(self) -> None:
        """No-op: all ranks take the same step on the owner."""

    def mark(self) -> None:
        """Start a new record of writes into the owner's parameters."""
        self.written.mark()

    def free_owner(self) -> None:
        """No-op: passes run on the owner."""
