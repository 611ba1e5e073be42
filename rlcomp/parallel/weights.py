"""The weights of a trained model on several ranks: whole on each, or in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import Parameter


class Weights(Protocol):
    """The weights of one model on this rank.

    Attributes:
        owner: the model, as the run knows it.
        module: what passes run on.
        in_parts: whether a pass needs all ranks.
    """

    owner: nn.Module
    module: nn.Module
    in_parts: bool

    def part(self, parameter: Parameter) -> Parameter:
        """Return the part of a parameter of the owner that this rank trains."""
        ...

    def divided(self, part: Tensor) -> bool:
        """Return whether a part is some of a parameter, and other ranks have the rest."""
        ...

    def total_of_parts(self, tensor: Tensor) -> Tensor:
        """Return the sum over the ranks that have the parts of a parameter."""
        ...

    def whole(self, part: Tensor, like: Tensor) -> Tensor:
        """Return the whole of a tensor like a part (a moment), from all ranks."""
        ...

    def own(self, whole: Tensor, like: Tensor) -> Tensor:
        """Return this rank's part of a whole tensor."""
        ...

    def stale(self) -> list[int]:
        """Return the numbers of the owner's parameters that were written since :meth:`mark`."""
        ...

    def refresh(self, parts: Sequence[int]) -> None:
        """Take rank 0's values of these parameters."""
        ...

    def collect(self) -> None:
        """Put the gradients of the passes, summed over ranks, into ``.grad`` of the parts."""
        ...

    def forget(self) -> None:
        """Drop gradients that were not collected."""
        ...

    def rest(self) -> None:
        """End passes without gradient."""
        ...

    def gather(self) -> None:
        """Give rank 0's owner the trained values."""
        ...

    def mark(self) -> None:
        """Start watching for writes into the owner's parameters."""
        ...

    def leave_whole(self) -> None:
        """Free the owner's own copy, on a rank that never reads it."""
        ...


class Parallel(Protocol):
    """Division of a model's weights among ranks: ``parallel=replicate``, ``parallel=shard``.

    Attributes:
        timeout: seconds that a rank waits for the others before it gives up.
    """

    timeout: float

    def weights(self, module: nn.Module) -> Weights:
        """Return the weights of a trained model; called once all processes have joined.

        Raises:
            ConfigError: they cannot be divided so; names the reason and the remedy.
        """
        ...


class WriteRecord:
    """Record of writes into tensors, by torch's version counters."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.versions = [-1] * len(tensors)

    def numbers(self) -> list[int]:
        """Return the numbers of tensors written since :meth:`mark`; at first all."""
        return [n for n, tensor in enumerate(self.tensors) if tensor._version != self.versions[n]]

    def mark(self) -> None:
        """Start a new record."""
        self.versions = [tensor._version for tensor in self.tensors]


def summed_gradients(parameters: Sequence[Parameter]) -> None:
    """Sum ``.grad`` over ranks, in one flat tensor a dtype; None stays None where all have none."""
    if not parameters:
        return
    there = torch.tensor([float(p.grad is not None) for p in parameters])
    there = there.to(parameters[0].device)
    dist.all_reduce(there)
    some = [p for p, count in zip(parameters, there.tolist(), strict=True) if count]
    for dtype in dict.fromkeys(p.dtype for p in some):
        alike = [p for p in some if p.dtype == dtype]
        flat = torch.cat(
            [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in alike]
        )
        dist.all_reduce(flat)
        sizes = [p.numel() for p in alike]
        for p, part in zip(alike, torch.split(flat, sizes), strict=True):
            p.grad = part.view_as(p).clone()


class ReplicatedWeights:
    """Whole weights on every rank; gradients are summed once a step.

    Args:
        owner: the model.
    """

    in_parts = False

    def __init__(self, owner: nn.Module) -> None:
        self.owner = self.module = owner
        self.parameters = [*owner.parameters()]
        self.written = WriteRecord(self.parameters)

    def part(self, parameter: Parameter) -> Parameter:
        """Return the parameter."""
        return parameter

    def divided(self, part: Tensor) -> bool:
        """Return False: parameters are whole."""
        del part
        return False

    def total_of_parts(self, tensor: Tensor) -> Tensor:
        """Return the tensor."""
        return tensor

    def whole(self, part: Tensor, like: Tensor) -> Tensor:
        """Return the tensor."""
        del like
        return part

    own = whole

    def stale(self) -> list[int]:
        """Return the numbers of the owner's parameters that were written since :meth:`mark`."""
        return self.written.numbers()

    @torch.no_grad()
    def refresh(self, parts: Sequence[int]) -> None:
        """Take rank 0's values of these parameters."""
        for number in parts:
            dist.broadcast(self.parameters[number].detach(), src=0)

    def collect(self) -> None:
        """Sum ``.grad`` of the parameters over ranks."""
        summed_gradients([p for p in self.parameters if p.requires_grad])

    def forget(self) -> None:
        """Drop gradients that were not collected."""
        for parameter in self.parameters:
            parameter.grad = None

    def rest(self) -> None:
        """No-op."""

    def gather(self) -> None:
        """No-op: every rank took the same step."""

    def mark(self) -> None:
        """Start watching for writes into the owner's parameters."""
        self.written.mark()

    def leave_whole(self) -> None:
        """No-op: passes run on the owner."""
