"""Memory-efficient output head: functions of each token's logits, computed in tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rlcomp.engine.autograd import differentiable_once
from rlcomp.engine.compiling import compiling
from rlcomp.engine.linear import Kernel, accumulate, linear, wide_product
from rlcomp.engine.native.softmax import use_library

# Logits of a tile on a CPU: 16 million, 64 MB in float32. Each tile reads the whole head, so that a
# tile of few tokens is slow: hence the minimum of tokens.
_TILE = 2**24
_LEAST_TOKENS = 128
# Logits that the functions process at a time, so that intermediate results fit in the cache.
_PART = 2**20
# Columns of logits per product: BLAS copies the factors to its work space, which stays small.
_COLUMNS = 1024
# Logits of a tile on a GPU, 2 GB in float32. A GPU is fastest at few large products: a tile is not
# divided into parts or columns.
_GPU_TILE = 2**29
_HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Head:
    """The output head of a language model: logits are ``states @ weight.T + bias``.

    Attributes:
        weight: shape ``[V, H]``.
        bias: shape ``[V]``, or None.
        kernel: kernel of the products.
        compiles: whether logit functions are compiled, if logits are computed in tiles.
        native: whether the native library computes the logit functions that it supports.
    """

    weight: Tensor
    bias: Tensor | None
    kernel: Kernel
    compiles: bool = False
    native: bool = False

    def to(self, dtype: torch.dtype) -> Head:
        """Return the head with weight and bias in a dtype."""
        bias = None if self.bias is None else self.bias.to(dtype)
        return replace(self, weight=self.weight.to(dtype), bias=bias)

    def logits(self, states: Tensor) -> Tensor:
        """Compute logits ``[N, V]`` of states ``[N, H]``, float32 at least."""
        if states.dtype in _HALF:  # called only inside of the autograd function below
            return wide_product(states, self.weight, self.bias)
        return linear(states, self.weight, self.bias, self.kernel)


@dataclass(frozen=True)
class LogitFunction:
    """A function of each row of logits (log-prob, entropy, ...), with an optional gradient.

    Attributes:
        value: maps the logits of some tokens, ``[n, V]``, and their range in the list of tokens to
            values ``[n, ...]``, row by row; does not change the logits.
        differentiable: whether the backward pass computes a gradient.
        gradient: maps the gradient with respect to the values, the logits and the range to the
            gradient with respect to the logits, ``[n, V]``. None to differentiate ``value``.
    """

    value: Callable[[Tensor, slice], Tensor]
    differentiable: bool = True
    gradient: Callable[[Tensor, Tensor, slice], Tensor] | None = None


def compute_in_tiles(
    functions: Sequence[LogitFunction], states: Tensor, rows: Tensor, head: Head | None
) -> list[Tensor]:
    """Compute functions of the logits of listed tokens, tile by tile.

    Logits are dropped after use and recomputed in the backward pass. A tile has about 16 million
    logits on a CPU, 500 million on a GPU. Fewer logits are computed in one piece, and kept for the
    backward pass.

    Args:
        functions: functions of the logits.
        states: inputs of the head, shape ``[M, H]``; without a head, the logits ``[M, V]``.
        rows: index of the state that predicts each listed token, shape ``[N]``, int64.
        head: None if the states are logits.

    Returns:
        The values of each function, ``[N, ...]``, differentiable once.

    Source:
        Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv:1604.06174, section
        4.

    Examples:
        >>> head = Head(torch.eye(2), None, "torch")
        >>> total = LogitFunction(lambda logits, _: logits.sum(-1))
        >>> compute_in_tiles([total], torch.eye(2), torch.tensor([1, 1, 0]), head)
        [tensor([1., 1., 1.])]
    """
    # In half precision only tiles sum gradients in float32.
    untiled = head is None or states.dtype not in _HALF or not len(rows)
    if untiled and len(rows) * _width(states, head) <= _tile(states):
        return _compute_untiled(functions, states, rows, head)
    weights = (None, None) if head is None else (head.weight, head.bias)
    return list(_TiledHead.apply(tuple(functions), rows, head, states, *weights))  # type: ignore[no-untyped-call]


def _compute_untiled(
    functions: Sequence[LogitFunction], states: Tensor, rows: Tensor, head: Head | None
) -> list[Tensor]:
    """Compute functions of all logits at once; autograd keeps the logits."""
    logits = states.index_select(0, rows)
    if head is not None:
        logits = linear(logits, head.weight, head.bias, head.kernel)
    whole = slice(0, len(rows))
    with use_library(head is not None and head.native):
        return [
            function.value(logits if function.differentiable else logits.detach(), whole)
            for function in functions
        ]


class _TiledHead(torch.autograd.Function):
    """Tiled output head: logits are dropped after the forward and recomputed in the backward."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        functions: tuple[LogitFunction, ...],
        rows: Tensor,
        head: Head | None,
        states: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows, states, weight, bias)
        # The properties of the head; autograd saves its weights.
        ctx.functions = functions
        ctx.head = None if head is None else (head.kernel, head.compiles, head.native)
        cast_head = None if weight is None else Head(weight, bias, *ctx.head).to(states.dtype)
        with _head_context(cast_head):
            values = _values(functions, states, rows, cast_head)
        pairs = zip(values, functions, strict=True)
        ctx.mark_non_differentiable(*(v for v, function in pairs if not function.differentiable))
        return values

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        rows, states, weight, bias = ctx.saved_tensors
        head = None if weight is None else Head(weight, bias, *ctx.head).to(states.dtype)
        used = [(f, g) for f, g in zip(ctx.functions, gradients, strict=True) if g is not None]
        if not used:
            return (None,) * 6
        # In float32 at least: bfloat16 would round at every tile.
        sums = [
            torch.zeros_like(each, dtype=torch.promote_types(each.dtype, torch.float32))
            if needed
            else None
            for each, needed in zip((states, weight, bias), ctx.needs_input_grad[3:], strict=True)
        ]
        for tile, tile_states, logits in _tiles(states, rows, head):
            with _head_context(head):
                gradient = _logit_gradient(used, logits, tile)
            _accumulate(sums, rows[tile], tile_states, gradient, head)
        pairs = zip(sums, (states, weight, bias), strict=True)
        return (None,) * 3 + tuple(
            None if total is None else total.to(each.dtype) for total, each in pairs
        )


@contextmanager
def _head_context(head: Head | None) -> Iterator[None]:
    """Switch compilation and the native library as the head requires, within the context."""
    with (
        compiling(head is not None and head.compiles),
        use_library(head is not None and head.native),
    ):
        yield


def _values(
    functions: Sequence[LogitFunction], states: Tensor, rows: Tensor, head: Head | None
) -> tuple[Tensor, ...]:
    """Compute the values of each function, ``[N, ...]``, tile by tile."""
    values: list[Tensor] = []
    for tile, _, logits in _tiles(states, rows, head):
        for part_logits, part in _parts(logits, tile):
            part_values = [function.value(part_logits, part) for function in functions]
            values = values or [each.new_empty(len(rows), *each.shape[1:]) for each in part_values]
            for whole, each in zip(values, part_values, strict=True):
                whole[part] = each
    return tuple(values)


def _logit_gradient(
    used: Sequence[tuple[LogitFunction, Tensor]], logits: Tensor, tile: slice
) -> Tensor:
    """Compute the gradient with respect to a tile's logits; may overwrite the logits."""
    for part_logits, part in _parts(logits, tile):
        gradients = [_function_gradient(f, g[part], part_logits, part) for f, g in used]
        gradient = torch.stack(gradients).sum(0) if len(gradients) > 1 else gradients[0]
        if len(part_logits) == len(logits):
            return gradient
        part_logits.copy_(gradient)
    return logits


def _function_gradient(
    function: LogitFunction, gradient: Tensor, logits: Tensor, part: slice
) -> Tensor:
    """Compute the gradient of a function with respect to the logits, shape ``[n, V]``."""
    if function.gradient is not None:
        return function.gradient(gradient, logits, part)
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        value = function.value(leaf, part)
    if not value.requires_grad:
        return torch.zeros_like(logits)
    return torch.autograd.grad(value, leaf, gradient)[0]


def _accumulate(
    sums: list[Tensor | None], rows: Tensor, inputs: Tensor, gradient: Tensor, head: Head | None
) -> None:
    """Add a tile's gradient to the gradients of the states, the weight and the bias."""
    states, weight, bias = sums
    gradient = gradient.to(inputs.dtype)
    if states is not None:
        back = gradient if head is None else linear(gradient, head.weight.t(), None, head.kernel)
        states.index_add_(0, rows, back.to(states.dtype))
    if weight is not None and head is not None:
        accumulate(weight, gradient, inputs, head.kernel)
    if bias is not None:
        bias.add_(gradient.sum(0))


def _tiles(
    states: Tensor, rows: Tensor, head: Head | None
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield ranges of listed tokens, their states and logits.

    The logits of all tiles share a buffer, except on a GPU with a head. Without a head the states
    are the logits.
    """
    width = _width(states, head)
    step = max(_LEAST_TOKENS, _tile(states) // width)
    gpu = states.device.type != "cpu"
    memory = states.new_empty(0 if gpu and head is not None else min(step, len(rows)), width)
    for start in range(0, len(rows), step):
        tile = slice(start, min(start + step, len(rows)))
        logits = memory[: tile.stop - start]
        if head is None:
            yield tile, logits, torch.index_select(states, 0, rows[tile], out=logits)
            continue
        tile_states = states.index_select(0, rows[tile])
        if gpu:
            logits = head.logits(tile_states)
        else:
            _write_logits(tile_states, head, logits)
        yield tile, tile_states, logits


def _write_logits(states: Tensor, head: Head, logits: Tensor) -> None:
    for start in range(0, len(head.weight), _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        bias = None if head.bias is None else head.bias[columns]
        logits[:, columns] = linear(states, head.weight[columns], bias, head.kernel)


def _parts(logits: Tensor, tile: slice) -> Iterator[tuple[Tensor, slice]]:
    """Yield parts of a tile's logits, and their ranges in the list of tokens."""
    step = max(1, _PART // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    for start in range(0, len(logits), step):
        part = logits[start : start + step]
        yield part, slice(tile.start + start, tile.start + start + len(part))


def _tile(states: Tensor) -> int:
    """Return the number of logits of a tile."""
    return _TILE if states.device.type == "cpu" else _GPU_TILE


def _width(states: Tensor, head: Head | None) -> int:
    """Return the number of logits of a token, ``V``."""
    return states.shape[1] if head is None else len(head.weight)
