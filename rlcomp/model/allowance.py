"""Allowance: how many numbers may be allocated while a model is built that a file describes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from rlcomp.errors import DataError

# What modules make their tensors with.
_MAKERS = {
    *(torch.empty, torch.zeros, torch.ones, torch.full),
    *(torch.rand, torch.randn, torch.randint, torch.arange, torch.eye),
}
_COPIERS = {torch.clone, torch.Tensor.clone}
# Beside weights there are buffers (in every layer of a GPT-Neo a mask of 2048 x 2048), and the
# embedding counts twice where the head shares it.
_SLACK, _SHARED = 1 << 27, 2
# A tensor is an object as well: layers without end are not free because each is small.
_SMALLEST = 1 << 14


class Allowance(TorchFunctionMode):
    """Context in which a config cannot make tensors out of all proportion to its weights.

    A config of some bytes describes models that no memory holds, while the file of its weights is
    as large as they are. At most ``2 n + 2^27`` numbers are made where ``n`` are stored; a tensor,
    stored or made, counts as 2^14 at least. An inner context has its own. Building on the meta
    device counts as well.

    Args:
        sizes: of the stored tensors, in numbers.
        told: whose config it is, for the message.
    """

    def __init__(self, sizes: Iterable[int], told: str) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.left = _SHARED * sum(max(size, _SMALLEST) for size in self.sizes) + _SLACK
        self.told = told
        self._outer: Token[Allowance | None] | None = None

    def __enter__(self) -> Allowance:
        """Become the allowance that counts."""
        self._outer = _CURRENT.set(self)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: object) -> None:
        """Leave it to the outer one again."""
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
        """Called by torch instead of each of its functions.

        Raises:
            DataError: it would allocate more than is left.
        """
        given = kwargs or {}
        if _CURRENT.get() is self:
            if func in _MAKERS:
                self._spend(math.prod(func(*args, **{**given, "device": "meta"}).shape))
            elif func in _COPIERS:
                self._spend(args[0].numel())
        return func(*args, **given)

    def _spend(self, numbers: int) -> None:
        self.left -= max(numbers, _SMALLEST)
        if self.left < 0:
            raise DataError(
                f"{self.told} describes a model out of proportion to its weights, which hold "
                f"{sum(self.sizes):,} numbers: use the config that belongs to the weights"
            )


_CURRENT: ContextVar[Allowance | None] = ContextVar("allowance", default=None)
