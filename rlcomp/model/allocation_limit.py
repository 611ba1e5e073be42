"""Limit of allocations while a model is built from an untrusted config."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from rlcomp.errors import DataError

_CREATORS = {
    *(torch.empty, torch.zeros, torch.ones, torch.full),
    *(torch.rand, torch.randn, torch.randint, torch.arange, torch.eye),
}
_CLONES = {torch.clone, torch.Tensor.clone}
# Numbers allowed for buffers, which are not stored: a GPT-Neo has a mask of 2048 x 2048 per layer.
_BUFFER_ALLOWANCE = 1 << 27
# Multiple of the stored numbers: an embedding that the head shares is stored once, created twice.
_FACTOR = 2
# Every tensor counts as this many numbers at least: many tiny layers have a cost too.
_MIN_COUNT = 1 << 14


class AllocationLimit(TorchFunctionMode):
    """Context that limits the numbers in created tensors to ``2 n + 2^27``, for ``n`` stored ones.

    A config of some bytes can describe a model larger than any memory. A file of weights cannot: it
    is as large as its tensors. Each tensor, stored or created, counts as 2^14 numbers at least;
    tensors on the meta device count too. Within an inner context only the inner limit counts.

    Args:
        sizes: number of elements of each stored tensor.
        owner: name of the config, for the message.
    """

    def __init__(self, sizes: Iterable[int], owner: str) -> None:
        super().__init__()
        self.sizes = list(sizes)
        stored = sum(max(size, _MIN_COUNT) for size in self.sizes)
        self.left = _FACTOR * stored + _BUFFER_ALLOWANCE
        self.owner = owner
        self._outer: Token[AllocationLimit | None] | None = None

    def __enter__(self) -> AllocationLimit:
        """Activate this limit."""
        self._outer = _CURRENT.set(self)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: object) -> None:
        """Activate the outer limit again."""
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        if self._outer is not None:
            _CURRENT.reset(self._outer)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Count the allocation of a torch function before it is called.

        Raises:
            DataError: the allocation exceeds the limit.
        """
        arguments = kwargs or {}
        if _CURRENT.get() is self:
            if func in _CREATORS:
                self._spend(math.prod(func(*args, **{**arguments, "device": "meta"}).shape))
            elif func in _CLONES:
                self._spend(args[0].numel())
        return func(*args, **arguments)

    def _spend(self, numbers: int) -> None:
        self.left -= max(numbers, _MIN_COUNT)
        if self.left < 0:
            raise DataError(
                f"{self.owner} describes a model out of proportion to its weights, which hold "
                f"{sum(self.sizes):,} numbers: use the config that belongs to the weights"
            )


_CURRENT: ContextVar[AllocationLimit | None] = ContextVar("allocation_limit", default=None)
