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
from rlcomp.engine.logprob import token_log_probs, token_log_probs_slope
from rlcomp.engine.native.softmax import by_library
from rlcomp.engine.once import differentiable_once
from rlcomp.engine.precision import wide_product

# Logits of a tile: 16 million, 64 MB in float32. A tile of few tokens is slow, because each tile
# reads the whole head: a large vocabulary takes more logits instead.
_TILE = 2**24
_LEAST_TOKENS = 128
# Logits that the measures see at a time: what they make on the way stays in the cache.
_PART = 2**20
# Tokens of the vocabulary per product: BLAS copies that much of the head to where it works.
_COLUMNS = 1024
# On a GPU, where what counts is how few and how large the products are: logits of a tile, 2 GB in
# float32, all of which the measures see, and all of whose columns are one product.
_GPU_TILE = 2**29
_HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Head:
    """The output head of a language model: logits are ``states @ weight.T + bias``.

    Attributes:
        weight: shape ``[V, H]``.
        bias: shape ``[V]``; None for none.
        kernel: what multiplies.
        compiles: whether what is made of logits is compiled, where it goes by tiles.
        native: whether it is made by the native library, where that can.
    """

    weight: Tensor
    bias: Tensor | None
    kernel: Kernel
    compiles: bool = False
    native: bool = False

    def of(self, states: Tensor) -> Head:
        """The head whose factors have the dtype of the states."""
        bias = None if self.bias is None else self.bias.to(states.dtype)
        return replace(self, weight=self.weight.to(states.dtype), bias=bias)

    def logits(self, states: Tensor) -> Tensor:
        """Shape ``[N, V]``, of states ``[N, H]``, float32 at least."""
        if states.dtype in _HALF:  # without a gradient
            return wide_product(states, self.weight, self.bias)
        return linear(states, self.weight, self.bias, self.kernel)


@dataclass(frozen=True)
class Measure:
    """A function of each row of logits (log-prob, entropy, ...), with an optional gradient.

    Attributes:
        value: from some of the logits, ``[n, V]``, and the places of those tokens in the list to
            ``[n, ...]``; row by row, and without writing into the logits.
        differentiable: whether a gradient is wanted; without one, the backward pass does nothing.
        slope: from the gradient with respect to the values, the logits and the places to the
            gradient with respect to the logits, ``[n, V]``. None to differentiate ``value``.
    """

    value: Callable[[Tensor, slice], Tensor]
    differentiable: bool = True
    slope: Callable[[Tensor, Tensor, slice], Tensor] | None = None


def taken_log_probs(
    tokens: Tensor,
    decoding: Decoding,
    suppressed: Tensor | None = None,
    recorded: Tensor | None = None,
) -> Measure:
    """:func:`rlcomp.engine.logprob.token_log_probs` of listed tokens, in nats.

    Args:
        tokens: shape ``[N]``, int64.
        decoding: a greedy one has no gradient.
        suppressed: shape ``[V]``, bool; None for none.
        recorded: shape ``[N, ceil(V / 8)]``, uint8; None for none.

    Returns:
        A measure of shape ``[N]``, whose gradient is worked out on the logits themselves.

    Source:
        recorded sets: DeepSeek-V3.2 2025, arXiv:2512.02556, section 3.1 (keep sampling mask).
    """

    def value(logits: Tensor, some: slice) -> Tensor:
        return token_log_probs(logits, tokens[some], decoding, suppressed, sets(some))

    def slope(gradient: Tensor, logits: Tensor, some: slice) -> Tensor:
        return token_log_probs_slope(
            gradient, logits, tokens[some], decoding, suppressed, sets(some)
        )

    def sets(some: slice) -> Tensor | None:
        return None if recorded is None else recorded[some]

    return Measure(value, decoding.temperature > 0, slope)


def by_rows(
    measures: Sequence[Measure], states: Tensor, rows: Tensor, head: Head | None
) -> list[Tensor]:
    """Functions of the logits of listed tokens, computed tile by tile.

    Logits are dropped after use and recomputed in the backward pass, which directly accumulates the
    gradients of the states and the head. At most about 16 million logits are in memory; smaller
    problems are computed in one piece.

    Args:
        measures: what is read off the logits; one product with the head serves all.
        states: what the head is applied to, shape ``[M, H]``; without a head, the logits
            ``[M, V]``.
        rows: which state speaks of each listed token; may repeat; shape ``[N]``, int64.
        head: None if the states are logits.

    Returns:
        For each measure shape ``[N, ...]``, in its unit, differentiable once.

    Source:
        Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv:1604.06174, section
        4: what is dropped in the forward pass is computed again.

    Examples:
        >>> head = Head(torch.eye(2), None, "torch")
        >>> total = Measure(lambda logits, _: logits.sum(-1))
        >>> by_rows([total], torch.eye(2), torch.tensor([1, 1, 0]), head)
        [tensor([1., 1., 1.])]
    """
    # What half precision does to logits only tiles avoid: they add up in float32.
    whole = head is None or states.dtype not in _HALF or not len(rows)
    if whole and len(rows) * _width(states, head) <= _tile(states):
        return _at_once(measures, states, rows, head)
    parts = (None, None) if head is None else (head.weight, head.bias)
    return list(_ByTiles.apply(tuple(measures), rows, head, states, *parts))  # type: ignore[no-untyped-call]


def _at_once(
    measures: Sequence[Measure], states: Tensor, rows: Tensor, head: Head | None
) -> list[Tensor]:
    logits = states.index_select(0, rows)
    if head is not None:
        logits = linear(logits, head.weight, head.bias, head.kernel)
    every = slice(0, len(rows))
    with by_library(head is not None and head.native):
        return [
            measure.value(logits if measure.differentiable else logits.detach(), every)
            for measure in measures
        ]


class _ByTiles(torch.autograd.Function):
    """Tiled output head: logits are dropped after the forward and recomputed in the backward."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        measures: tuple[Measure, ...],
        rows: Tensor,
        head: Head | None,
        states: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows, states, weight, bias)
        # Of the head not its weights, which are saved.
        ctx.measures = measures
        ctx.head = None if head is None else (head.kernel, head.compiles, head.native)
        own = None if weight is None else Head(weight, bias, *ctx.head).of(states)
        with _as_told(own):
            values = _measured(measures, states, rows, own)
        paired = zip(values, measures, strict=True)
        ctx.mark_non_differentiable(*(v for v, measure in paired if not measure.differentiable))
        return values

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        rows, states, weight, bias = ctx.saved_tensors
        head = None if weight is None else Head(weight, bias, *ctx.head).of(states)
        wanted = [(m, g) for m, g in zip(ctx.measures, gradients, strict=True) if g is not None]
        if not wanted:
            return (None,) * 6
        found = [
            torch.zeros_like(one, dtype=_wide(one)) if needed else None
            for one, needed in zip((states, weight, bias), ctx.needs_input_grad[3:], strict=True)
        ]
        for some, taken, logits in _tiles(states, rows, head):
            with _as_told(head):
                gradient = _gradient(wanted, logits, some)
            _collect(found, rows[some], taken, gradient, head)
        made = zip(found, (states, weight, bias), strict=True)
        return (None,) * 3 + tuple(None if one is None else one.to(of.dtype) for one, of in made)


@contextmanager
def _as_told(head: Head | None) -> Iterator[None]:
    """Context in which measures are computed as a head says."""
    with (
        compiling(head is not None and head.compiles),
        by_library(head is not None and head.native),
    ):
        yield


def _measured(
    measures: Sequence[Measure], states: Tensor, rows: Tensor, head: Head | None
) -> tuple[Tensor, ...]:
    values: list[Tensor] = []
    for some, _, logits in _tiles(states, rows, head):
        for part, place in _parts(logits, some):
            found = [measure.value(part, place) for measure in measures]
            values = values or [one.new_empty(len(rows), *one.shape[1:]) for one in found]
            for whole, one in zip(values, found, strict=True):
                whole[place] = one
    return tuple(values)


def _wide(tensor: Tensor) -> torch.dtype:
    """The dtype of sums over tiles: bfloat16 would round at every tile."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _gradient(wanted: Sequence[tuple[Measure, Tensor]], logits: Tensor, some: slice) -> Tensor:
    """With respect to a tile's logits, whose memory it takes where it is made in parts."""
    for part, place in _parts(logits, some):
        slopes = [_slope(measure, g[place], part, place) for measure, g in wanted]
        slope = torch.stack(slopes).sum(0) if len(slopes) > 1 else slopes[0]
        if len(part) == len(logits):
            return slope
        part.copy_(slope)
    return logits


def _slope(measure: Measure, gradient: Tensor, logits: Tensor, place: slice) -> Tensor:
    """The gradient of a measure with respect to the logits, shape ``[n, V]``."""
    if measure.slope is not None:
        return measure.slope(gradient, logits, place)
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        value = measure.value(leaf, place)
    if not value.requires_grad:
        return torch.zeros_like(logits)
    return torch.autograd.grad(value, leaf, gradient)[0]


def _collect(
    found: list[Tensor | None], rows: Tensor, taken: Tensor, gradient: Tensor, head: Head | None
) -> None:
    """Accumulate a tile's gradient into those of the states, the weight and the bias."""
    states, weight, bias = found
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
    """Places of some listed tokens, their states, and their logits, in memory used again."""
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
    """Some of a tile's logits at a time, and where they stand in the whole list."""
    step = max(1, _PART // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    for start in range(0, len(logits), step):
        part = logits[start : start + step]
        yield part, slice(some.start + start, some.start + start + len(part))


def _tile(states: Tensor) -> int:
    """Logits in memory at a time."""
    return _TILE if states.device.type == "cpu" else _GPU_TILE


def _width(states: Tensor, head: Head | None) -> int:
    return states.shape[1] if head is None else len(head.weight)
