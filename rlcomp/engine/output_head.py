"""Memory-efficient output head: per-token functions of the logits, computed in tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rlcomp.engine.compiling import compiling
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.linear import Kernel, accumulate, linear
from rlcomp.engine.logprob import token_log_probs, token_log_probs_gradient
from rlcomp.engine.native.softmax import use_library
from rlcomp.engine.once_differentiable import differentiable_once
from rlcomp.engine.precision import wide_product

# Logits of a tile: 16 million, 64 MB in float32. Each tile reads the whole head, so that a tile of
# few tokens is slow: a large vocabulary takes more logits instead.
_TILE = 2**24
_LEAST_TOKENS = 128
# Logits that the functions process at a time: intermediate results stay in the cache.
_PART = 2**20
# Tokens of the vocabulary per product: BLAS copies this part of the head to its work space.
_COLUMNS = 1024
# Logits of a tile on a GPU, 2 GB in float32: few and large products are fastest there. The
# functions process a whole tile, and one product computes all of its columns.
_GPU_TILE = 2**29
_HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Head:
    """The output head of a language model: logits are ``states @ weight.T + bias``.

    Attributes:
        weight: shape ``[V, H]``.
        bias: shape ``[V]``; None for none.
        kernel: of the products.
        compiles: whether the functions of logits are compiled, where logits are computed in tiles.
        native: whether the native library computes these functions, where it can.
    """

    weight: Tensor
    bias: Tensor | None
    kernel: Kernel
    compiles: bool = False
    native: bool = False

    def of(self, states: Tensor) -> Head:
        """Return the head with factors in the dtype of the states."""
        bias = None if self.bias is None else self.bias.to(states.dtype)
        return replace(self, weight=self.weight.to(states.dtype), bias=bias)

    def logits(self, states: Tensor) -> Tensor:
        """Compute logits ``[N, V]`` of states ``[N, H]``, float32 at least."""
        if states.dtype in _HALF:  # without a gradient
            return wide_product(states, self.weight, self.bias)
        return linear(states, self.weight, self.bias, self.kernel)


@dataclass(frozen=True)
class LogitFunction:
    """A function of each row of logits (log-prob, entropy, ...), with an optional gradient.

    Attributes:
        value: from some of the logits, ``[n, V]``, and the indices of their tokens in the list, to
            ``[n, ...]``; row by row, and without writing into the logits.
        differentiable: whether a gradient is needed; without one, the backward pass does nothing.
        slope: from the gradient with respect to the values, the logits and the indices to the
            gradient with respect to the logits, ``[n, V]``. None to differentiate ``value``.
    """

    value: Callable[[Tensor, slice], Tensor]
    differentiable: bool = True
    slope: Callable[[Tensor, Tensor, slice], Tensor] | None = None


def sampled_log_probs(
    tokens: Tensor,
    decoding: Decoding,
    suppressed: Tensor | None = None,
    recorded: Tensor | None = None,
) -> LogitFunction:
    """Return :func:`rlcomp.engine.logprob.token_log_probs` of listed tokens as a logit function.

    Args:
        tokens: shape ``[N]``, int64.
        decoding: greedy decoding has no gradient.
        suppressed: shape ``[V]``, bool; None for none.
        recorded: shape ``[N, ceil(V / 8)]``, uint8; None for none.

    Returns:
        A function with values ``[N]``, in nats. Its gradient is computed in the memory of the
        logits.

    Source:
        recorded sets: DeepSeek-V3.2 2025, arXiv:2512.02556, section 3.1 (keep sampling mask).
    """

    def value(logits: Tensor, some: slice) -> Tensor:
        return token_log_probs(logits, tokens[some], decoding, suppressed, sets(some))

    def slope(gradient: Tensor, logits: Tensor, some: slice) -> Tensor:
        return token_log_probs_gradient(
            gradient, logits, tokens[some], decoding, suppressed, sets(some)
        )

    def sets(some: slice) -> Tensor | None:
        return None if recorded is None else recorded[some]

    return LogitFunction(value, decoding.temperature > 0, slope)


def compute_in_tiles(
    functions: Sequence[LogitFunction], states: Tensor, rows: Tensor, head: Head | None
) -> list[Tensor]:
    """Compute functions of the logits of listed tokens, tile by tile.

    Logits are dropped after use and recomputed in the backward pass. It accumulates the gradients
    of the states and the head directly. At most about 16 million logits are in memory; smaller
    problems are computed in one piece.

    Args:
        functions: functions of the logits; one product with the head serves all.
        states: inputs of the head, shape ``[M, H]``; without a head, the logits ``[M, V]``.
        rows: for each listed token, the state that predicts it; may repeat; shape ``[N]``, int64.
        head: None if the states are logits.

    Returns:
        For each function shape ``[N, ...]``, in its unit, differentiable once.

    Source:
        Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv:1604.06174, section
        4: dropped results of the forward pass are computed again.

    Examples:
        >>> head = Head(torch.eye(2), None, "torch")
        >>> total = LogitFunction(lambda logits, _: logits.sum(-1))
        >>> compute_in_tiles([total], torch.eye(2), torch.tensor([1, 1, 0]), head)
        [tensor([1., 1., 1.])]
    """
    # In half precision only tiles sum gradients in float32.
    whole = head is None or states.dtype not in _HALF or not len(rows)
    if whole and len(rows) * _width(states, head) <= _tile(states):
        return _at_once(functions, states, rows, head)
    parts = (None, None) if head is None else (head.weight, head.bias)
    return list(_ByTiles.apply(tuple(functions), rows, head, states, *parts))  # type: ignore[no-untyped-call]


def _at_once(
    functions: Sequence[LogitFunction], states: Tensor, rows: Tensor, head: Head | None
) -> list[Tensor]:
    logits = states.index_select(0, rows)
    if head is not None:
        logits = linear(logits, head.weight, head.bias, head.kernel)
    every = slice(0, len(rows))
    with use_library(head is not None and head.native):
        return [
            function.value(logits if function.differentiable else logits.detach(), every)
            for function in functions
        ]


class _ByTiles(torch.autograd.Function):
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
        # The head without its weights: those are saved by autograd.
        ctx.functions = functions
        ctx.head = None if head is None else (head.kernel, head.compiles, head.native)
        own = None if weight is None else Head(weight, bias, *ctx.head).of(states)
        with _head_context(own):
            values = _values(functions, states, rows, own)
        paired = zip(values, functions, strict=True)
        ctx.mark_non_differentiable(*(v for v, function in paired if not function.differentiable))
        return values

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        rows, states, weight, bias = ctx.saved_tensors
        head = None if weight is None else Head(weight, bias, *ctx.head).of(states)
        wanted = [(f, g) for f, g in zip(ctx.functions, gradients, strict=True) if g is not None]
        if not wanted:
            return (None,) * 6
        sums = [
            torch.zeros_like(one, dtype=_wide(one)) if needed else None
            for one, needed in zip((states, weight, bias), ctx.needs_input_grad[3:], strict=True)
        ]
        for some, taken, logits in _tiles(states, rows, head):
            with _head_context(head):
                gradient = _gradient(wanted, logits, some)
            _collect(sums, rows[some], taken, gradient, head)
        pairs = zip(sums, (states, weight, bias), strict=True)
        return (None,) * 3 + tuple(None if one is None else one.to(of.dtype) for one, of in pairs)


@contextmanager
def _head_context(head: Head | None) -> Iterator[None]:
    """Set the context in which functions are computed as the head requires."""
    with (
        compiling(head is not None and head.compiles),
        use_library(head is not None and head.native),
    ):
        yield


def _values(
    functions: Sequence[LogitFunction], states: Tensor, rows: Tensor, head: Head | None
) -> tuple[Tensor, ...]:
    values: list[Tensor] = []
    for some, _, logits in _tiles(states, rows, head):
        for part, place in _parts(logits, some):
            part_values = [function.value(part, place) for function in functions]
            values = values or [one.new_empty(len(rows), *one.shape[1:]) for one in part_values]
            for whole, one in zip(values, part_values, strict=True):
                whole[place] = one
    return tuple(values)


def _wide(tensor: Tensor) -> torch.dtype:
    """Return the dtype of sums over tiles: bfloat16 would round at every tile."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _gradient(
    wanted: Sequence[tuple[LogitFunction, Tensor]], logits: Tensor, some: slice
) -> Tensor:
    """Compute the gradient with respect to a tile's logits, in their memory if in parts."""
    for part, place in _parts(logits, some):
        slopes = [_slope(function, g[place], part, place) for function, g in wanted]
        slope = torch.stack(slopes).sum(0) if len(slopes) > 1 else slopes[0]
        if len(part) == len(logits):
            return slope
        part.copy_(slope)
    return logits


def _slope(function: LogitFunction, gradient: Tensor, logits: Tensor, place: slice) -> Tensor:
    """Compute the gradient of a function with respect to the logits, shape ``[n, V]``."""
    if function.slope is not None:
        return function.slope(gradient, logits, place)
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        value = function.value(leaf, place)
    if not value.requires_grad:
        return torch.zeros_like(logits)
    return torch.autograd.grad(value, leaf, gradient)[0]


def _collect(
    sums: list[Tensor | None], rows: Tensor, taken: Tensor, gradient: Tensor, head: Head | None
) -> None:
    """Add a tile's gradient to the gradients of the states, the weight and the bias."""
    states, weight, bias = sums
    gradient = gradient.to(taken.dtype)
    if states is not None:
        back = gradient if head is None else linear(gradient, head.weight.t(), None, head.kernel)
        states.index_add_(0, rows, back.to(states.dtype))
    if weight is not None and head is not None:
        accumulate(weight, gradient, taken, head.kernel)
    if bias is not None:
        bias.add_(gradient.sum(0))


def _tiles(
    states: Tensor, rows: Tensor, head: Head | None
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield places of listed tokens, their states and logits; all logits share one buffer."""
    width = _width(states, head)
    step = max(_LEAST_TOKENS, _tile(states) // width)
    gpu = states.device.type != "cpu"
    memory = states.new_empty(0 if gpu and head is not None else min(step, len(rows)), width)
    for start in range(0, len(rows), step):
        some = slice(start, min(start + step, len(rows)))
        logits = memory[: some.stop - start]
        if head is None:
            yield some, logits, torch.index_select(states, 0, rows[some], out=logits)
            continue
        taken = states.index_select(0, rows[some])
        if gpu:
            logits = head.logits(taken)
        else:
            _product(taken, head, logits)
        yield some, taken, logits


def _product(states: Tensor, head: Head, logits: Tensor) -> None:
    for start in range(0, len(head.weight), _COLUMNS):
        some = slice(start, start + _COLUMNS)
        bias = None if head.bias is None else head.bias[some]
        logits[:, some] = linear(states, head.weight[some], bias, head.kernel)


def _parts(logits: Tensor, some: slice) -> Iterator[tuple[Tensor, slice]]:
    """Yield parts of a tile's logits, and their places in the whole list."""
    step = max(1, _PART // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    for start in range(0, len(logits), step):
        part = logits[start : start + step]
        yield part, slice(some.start + start, some.start + start + len(part))


def _tile(states: Tensor) -> int:
    """Return how many logits are in memory at a time."""
    return _TILE if states.device.type == "cpu" else _GPU_TILE


def _width(states: Tensor, head: Head | None) -> int:
    return states.shape[1] if head is None else len(head.weight)
