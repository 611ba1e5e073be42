"""Linear layers with a selectable matmul kernel: torch, oneDNN, BF16x6, TF32, bfloat16."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.engine.autograd import differentiable_once
from rlcomp.engine.native import bf16x6

Kernel = Literal["torch", "onednn", "bf16x6", "tf32", "bfloat16"]

# Minimum rows, width (inputs and outputs) and multiply-adds for which a kernel is faster than
# torch's. A call of oneDNN has an overhead of some 15 microseconds. With few rows, reading the
# weight dominates. BF16x6 multiplies 32 rows by 32 outputs, and splitting numbers has to pay off.
_LEAST = {"onednn": (8, 1, 2**21), "bf16x6": (64, 64, 2**22)}
# With fewer rows, adding a block to the output costs more than oneDNN saves.
_LEAST_ADDED = 128
# Rows of a weight's gradient per product on a CPU: they fit in the cache.
_BLOCK = 1024
# Minimum speed-up by oneDNN: clearly above 1, so that all runs on a machine choose the same kernel.
_SPEEDUP = 1.3
_PROBE = (256, 512, 512)  # rows, inputs, outputs of the measured product: some 2 ms
_PROBES = 20  # number of measurements of a kernel


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, kernel: Kernel) -> Tensor:
    """Compute ``x @ weight.T + bias`` by a chosen kernel, differentiable once.

    Gradients are computed by the same kernel. A weight may be a transposed view. oneDNN prepares a
    program for every shape in some 0.3 ms: few different numbers of rows are better than many.

    Args:
        x: shape ``[..., I]``.
        weight: shape ``[O, I]``.
        bias: shape ``[O]``, or None.
        kernel: ``torch`` is torch's default. ``onednn`` is float32 by oneDNN on a CPU, and obeys
            ``torch.set_float32_matmul_precision``. ``bf16x6`` is float32 by six bfloat16 products
            on Intel AMX (:mod:`rlcomp.engine.native.bf16x6`), in one thread. ``tf32`` rounds
            float32 factors to 11 binary digits on a GPU, and sums in float32. ``bfloat16`` rounds
            the factors and the product to bfloat16 and sums in float32; the bias is not rounded.
            ``onednn``, ``bf16x6`` and ``tf32`` are ``torch`` where they are not supported, and the
            first two also for small products.

    Returns:
        Shape ``[..., O]``, the dtype of ``x``.

    Source:
        bfloat16: Kalamkar et al. 2019, "A study of BFLOAT16 for deep learning training",
        arXiv:1905.12322, section 3; BF16x6: Henry, Tang & Heinecke 2019, arXiv:1904.06376, section
        III.

    Examples:
        >>> linear(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), None, "bfloat16")
        tensor([[11.]])
    """
    plain = kernel == "torch" or (kernel == "tf32" and not x.is_cuda)
    if plain or (kernel in _LEAST and not _is_faster(x, weight, kernel)):
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    # Entering the autograd graph costs as much as a small product.
    multiply = _Linear.apply if torch.is_grad_enabled() else _forward
    product: Tensor = multiply(rows, weight, bias, kernel)
    return product.view(*x.shape[:-1], len(weight))


def accumulate(out: Tensor, g: Tensor, x: Tensor, kernel: Kernel) -> None:
    """Add a weight gradient ``g.T @ x`` to ``out`` in place.

    A CPU adds blocks of rows, so that a large ``out`` needs no second array of its size.

    Args:
        out: shape ``[O, I]``; its dtype may be wider than the factors'.
        g: gradient with respect to the layer's output, shape ``[N, O]``.
        x: the layer's input, shape ``[N, I]``.
        kernel: as in :func:`linear`.

    Examples:
        >>> total = torch.ones(1, 2)
        >>> accumulate(total, torch.tensor([[2.0]]), torch.tensor([[3.0, 4.0]]), "torch")
        >>> total
        tensor([[7., 9.]])
    """
    if kernel in _LEAST and not _is_faster(x, out, kernel):
        kernel = "torch"
    if kernel == "onednn" and len(x) < _LEAST_ADDED:
        kernel = "torch"
    if kernel == "bf16x6":
        bf16x6.add_product(out, g.t(), x)
        return
    if kernel in ("torch", "tf32") and out.dtype == x.dtype:
        with tf32() if kernel == "tf32" else nullcontext():
            out.addmm_(g.t(), x)
        return
    factor = _factor(x, kernel).t()
    block = _BLOCK if out.device.type == "cpu" else len(out)
    for start in range(0, len(out), block):
        rows = slice(start, start + block)
        out[rows].add_(_product(_factor(g[:, rows], kernel).t(), factor, kernel))


def wide_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute ``x @ weight.T + bias`` of half-precision factors in float32.

    A CPU rounds the sums to the dtype of the factors.

    Args:
        x: shape ``[N, I]``.
        weight: shape ``[O, I]``.
        bias: shape ``[O]``, or None.

    Source:
        Kalamkar et al. 2019, arXiv:1905.12322, section 3.

    Examples:
        >>> x, weight = torch.tensor([[1.0, 2.0]]).half(), torch.tensor([[3.0, 4.0]]).half()
        >>> wide_product(x, weight, None)
        tensor([[11.]])
    """
    if x.is_cuda:
        product = torch.mm(x, weight.t(), out_dtype=torch.float32)
    else:
        product = F.linear(x, weight).float()
    return product if bias is None else product.add_(bias)


@contextmanager
def tf32() -> Iterator[None]:
    """Allow TF32 for float32 products on a GPU, in the whole process, within the context."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@cache
def faster_kernel() -> Kernel:
    """Return the faster float32 kernel on this machine: ``torch`` or ``onednn``.

    Measured once per process, in some 80 ms. ``onednn`` must also have float32 precision.
    """
    if not has_onednn():
        return "torch"
    rows, inputs, outputs = _PROBE
    seeded = torch.Generator("cpu").manual_seed(0)
    x = torch.randn(rows, inputs, generator=seeded, dtype=torch.float32, device="cpu")
    weight = torch.randn(outputs, inputs, generator=seeded, dtype=torch.float32, device="cpu")
    with torch.no_grad():
        exact = x.double() @ weight.double().t()
        error = (_product(x, weight, "onednn") - exact).abs().max() / exact.abs().max()
        if not error <= 1e-5:
            return "torch"
        torch_seconds, onednn_seconds = _seconds(
            lambda: F.linear(x, weight), lambda: _product(x, weight, "onednn")
        )
    return "onednn" if torch_seconds > _SPEEDUP * onednn_seconds else "torch"


def has_onednn() -> bool:
    """Return whether this build of torch supports the kernel ``onednn``."""
    built: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return built and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class _Linear(torch.autograd.Function):
    """Linear layer whose forward pass and gradients use one matmul kernel."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        kernel: Kernel,
    ) -> Tensor:
        needs_x, needs_weight, *_ = ctx.needs_input_grad
        ctx.save_for_backward(x if needs_weight else None, weight if needs_x else None)
        ctx.kernel = kernel
        return _forward(x, weight, bias, kernel)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, weight = ctx.saved_tensors
        kernel: Kernel = ctx.kernel
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        factor = _factor(g, kernel)
        # Autograd casts each gradient to the dtype of its input.
        return (
            _product(factor, _factor(weight, kernel).t(), kernel) if needs_x else None,
            _weight_gradient(factor, _factor(x, kernel), kernel) if needs_weight else None,
            g.sum(0) if needs_bias else None,
            None,
        )


def _forward(x: Tensor, weight: Tensor, bias: Tensor | None, kernel: Kernel) -> Tensor:
    """Compute ``x @ weight.T + bias`` of ``x`` ``[N, I]``, in the dtype of ``x``."""
    if kernel in _LEAST:
        return _product(x, weight, kernel, bias)
    product = _product(_factor(x, kernel), _factor(weight, kernel), kernel).to(x.dtype)
    return product if bias is None else product.add_(bias)


def _factor(tensor: Tensor, kernel: Kernel) -> Tensor:
    """Round a factor as the kernel requires."""
    return tensor.bfloat16() if kernel == "bfloat16" else tensor


def _product(x: Tensor, weight: Tensor, kernel: Kernel, bias: Tensor | None = None) -> Tensor:
    """Compute ``x @ weight.T + bias`` of factors ``[N, I]`` and ``[O, I]``."""
    if kernel == "tf32":
        with tf32():
            return F.linear(x, weight, bias)
    if kernel == "bf16x6":
        split = bf16x6.product(x, weight.t())
        return split if bias is None else split.add_(bias)
    if kernel != "onednn":
        return F.linear(x, weight, bias)
    # With gaps between the rows oneDNN falls back to a loop, a thousand times slower.
    dense = weight.is_contiguous() or weight.t().is_contiguous()
    weight = weight if dense else weight.contiguous()
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def _weight_gradient(g: Tensor, x: Tensor, kernel: Kernel) -> Tensor:
    """Compute ``g.T @ x``, shape ``[O, I]``."""
    # oneDNN copies a transposed first factor. Choose the smaller copy: g, or x and the transposed
    # result.
    size, other_size = g.numel(), x.numel() + g.shape[1] * x.shape[1]
    if kernel == "onednn" and other_size < size:
        return _product(x.t(), g.t(), kernel).t().contiguous()
    return _product(g.t(), x.t(), kernel)


def _is_faster(x: Tensor, weight: Tensor, kernel: Kernel) -> bool:
    """Return whether oneDNN or BF16x6 supports these factors and is faster than torch."""
    rows, (least_rows, least_width, least_work) = math.prod(x.shape[:-1]), _LEAST[kernel]
    supported = x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32
    large = rows >= least_rows and min(weight.shape) >= least_width
    return supported and large and rows * weight.numel() >= least_work


def _seconds(*calls: Callable[[], object]) -> list[float]:
    """Measure the CPU seconds of each call: the minimum over several alternating runs."""
    least = [math.inf] * len(calls)
    for _ in range(_PROBES):
        for number, call in enumerate(calls):
            start = time.thread_time()
            call()
            least[number] = min(least[number], time.thread_time() - start)
    return least
