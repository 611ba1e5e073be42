"""Limit of the numbers that may be allocated while a model is built from a file's config."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from rlcomp.errors import DataError

# Functions that modules call to create tensors.
_MAKERS = {
    *(torch.empty, torch.zeros, torch.ones, torch.full),
    *(torch.rand, torch.randn, torch.randint, torch.arange, torch.eye),
}
_COPIERS = {torch.clone, torch.Tensor.clone}
# Beside weights there are buffers (a mask of 2048 x 2048 in every layer of a GPT-Neo). The
# embedding counts twice if the head shares it.
_SLACK, _SHARED = 1 << 27, 2
# A tensor is an object as well: many tiny layers are not free.
_SMALLEST = 1 << 14


class AllocationLimit(TorchFunctionMode):
    """Context in which a config cannot create tensors out of all proportion to its weights.

    A config of some bytes can describe a model that no memory holds, while its weight file has the
    size of its weights. At most ``2 n + 2^27`` numbers may be created if ``n`` are stored; a
    tensor, stored or created, counts as 2^14 at least. An inner context has its own limit. Building
    on the meta device counts as well.

    Args:
        sizes: of the stored tensors, in numbers.
        owner: of the config, for the message.
    """

    def __init__(self, sizes: Iterable[int], owner: str) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.left = _SHARED * sum(max(size, _SMALLEST) for size in self.sizes) + _SLACK
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
        """Count the allocation of a function that torch is about to call.

        Raises:
            DataError: it would allocate more than is left.
        """
        arguments = kwargs or {}
        if _CURRENT.get() is self:
            if func in _MAKERS:
                self._spend(math.prod(func(*args, **{**arguments, "device": "meta"}).shape))
            elif func in _COPIERS:
                self._spend(args[0].numel())
        return func(*args, **arguments)

    def _spend(self, numbers: int) -> None:
        self.left -= max(numbers, _SMALLEST)
        if self.left < 0:
            raise DataError(
                f"{self.owner} describes a model out of proportion to its weights, which hold "
                f"{sum(self.sizes):,} numbers: use the config that belongs to the weights"
            )


_CURRENT: ContextVar[AllocationLimit | None] = ContextVar("allowance", default=None)
