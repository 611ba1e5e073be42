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
        """What this rank trains of one of the owner's parameters."""
        ...

    def divided(self, part: Tensor) -> bool:
        """Whether a part is some of a parameter, the rest of which other ranks have."""
        ...

    def total_of_parts(self, tensor: Tensor) -> Tensor:
        """The sum over the ranks that have the parts of a parameter."""
        ...

    def whole(self, part: Tensor, like: Tensor) -> Tensor:
        """A tensor beside this rank's part of a parameter (a moment), from all ranks."""
        ...

    def own(self, whole: Tensor, like: Tensor) -> Tensor:
        """This rank's part of such a tensor."""
        ...

    def stale(self) -> list[int]:
        """Numbers of the owner's parameters that were written into since :meth:`mark`."""
        ...

    def refresh(self, parts: Sequence[int]) -> None:
        """Take rank 0's values of these parameters."""
        ...

    def collect(self) -> None:
        """The gradients of this rank's passes, summed over ranks, in ``.grad`` of the parts."""
        ...

    def forget(self) -> None:
        """Drop gradients that were not collected."""
        ...

    def rest(self) -> None:
        """Called behind passes without gradient."""
        ...

    def gather(self) -> None:
        """Give rank 0's owner the values that were trained."""
        ...

    def mark(self) -> None:
        """From here on look at what is written into the owner's parameters."""
        ...

    def leave_whole(self) -> None:
        """Give up the owner's own copy, on a rank where nobody reads it."""
        ...


class Written:
    """Tells which tensors were written into: torch counts it."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.seen = [-1] * len(tensors)

    def numbers(self) -> list[int]:
        """Of those that were, since :meth:`mark`; at first of all."""
        return [n for n, tensor in enumerate(self.tensors) if tensor._version != self.seen[n]]

    def mark(self) -> None:
        """Begin anew."""
        self.seen = [tensor._version for tensor in self.tensors]


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


class Replicated:
    """Whole weights on every rank; gradients are summed once a step.

    Args:
        owner: the model.
    """

    in_parts = False

    def __init__(self, owner: nn.Module) -> None:
        self.owner = self.module = owner
        self.parameters = [*owner.parameters()]
        self.written = Written(self.parameters)

    def part(self, parameter: Parameter) -> Parameter:
        """The parameter itself."""
        return parameter

    def divided(self, part: Tensor) -> bool:
        """Never."""
        del part
        return False

    def total_of_parts(self, tensor: Tensor) -> Tensor:
        """The tensor itself."""
        return tensor

    def whole(self, part: Tensor, like: Tensor) -> Tensor:
        """The tensor itself."""
        del like
        return part

    own = whole

    def stale(self) -> list[int]:
        """As :class:`Weights` says."""
        return self.written.numbers()

    @torch.no_grad()
    def refresh(self, parts: Sequence[int]) -> None:
        """As :class:`Weights` says."""
        for number in parts:
            dist.broadcast(self.parameters[number].detach(), src=0)

    def collect(self) -> None:
        """As :class:`Weights` says."""
        summed_gradients([p for p in self.parameters if p.requires_grad])

    def forget(self) -> None:
        """As :class:`Weights` says."""
        for parameter in self.parameters:
            parameter.grad = None

    def rest(self) -> None:
        """Nothing to do."""

    def gather(self) -> None:
        """Nothing to do: every rank took the same step."""

    def mark(self) -> None:
        """As :class:`Weights` says."""
        self.written.mark()

    def leave_whole(self) -> None:
        """Nothing to do: passes run on it."""
