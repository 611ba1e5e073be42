"""Functions of a layer: RMSNorm, rotary embedding and SiLU gate, with explicit backward passes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.engine.autograd import differentiable_once
from rlcomp.engine.compiling import compiled, compiles


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Compute ``weight * x / sqrt(mean(x^2) + eps)`` over the last dimension, in float32 at least.

    The explicit backward pass is for CPUs, where autograd takes several times as long.

    Args:
        x: shape ``[..., H]``.
        weight: shape ``[H]``.
        eps: added to the mean square.

    Returns:
        Shape and dtype of ``x``; differentiable once.

    Source:
        Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4.

    Examples:
        >>> rms_norm(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 1.0]), 0.0)
        tensor([[0.8485, 1.1314]])
    """
    if x.is_cuda:  # one kernel for forward and one for backward
        return F.rms_norm(x, weight.shape, weight.to(x.dtype), eps)
    if not torch.is_grad_enabled():
        return _scale(weight, _unit(x, eps)[0], x)
    result: Tensor = _RmsNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return result


@compiled
def fused_rms_norm(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """Compute :func:`rms_norm` and convert it to ``dtype``, in one kernel if compiled."""
    return F.rms_norm(x, weight.shape, weight.to(x.dtype), eps).to(dtype)


def _scale(weight: Tensor, unit: Tensor, x: Tensor) -> Tensor:
    """Return ``weight * unit`` in the dtype of ``x``; a wider weight multiplies before rounding."""
    if weight.dtype == x.dtype:
        return weight * unit.to(x.dtype)
    return (weight * unit).to(x.dtype)


def _unit(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return ``x`` divided by its root mean square, and the factor, in float32 at least."""
    x = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    # By a norm: one pass over x, no squares in memory.
    square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square()
    scale = torch.rsqrt(square / x.shape[-1] + eps)
    return x * scale, scale


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:  # noqa: ANN401
        unit, scale = _unit(x, eps)
        ctx.save_for_backward(x, weight, scale)
        return _scale(weight, unit, x)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:  # noqa: ANN401
        # With u = x scale: dx = scale (g w - u mean(g w u)), and dw is the sum of g u over rows.
        x, weight, scale = ctx.saved_tensors
        wide = gradient.to(scale.dtype)
        unit = x * scale
        dx = dw = None
        if ctx.needs_input_grad[0]:
            weighted = wide * weight
            projection = (weighted * unit).sum(-1, keepdim=True) / x.shape[-1]
            dx = ((weighted - unit * projection) * scale).to(x.dtype)
        if ctx.needs_input_grad[1]:
            dw = (wide * unit).reshape(-1, x.shape[-1]).sum(0).to(weight.dtype)
        return dx, dw, None


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Apply rotary position embedding (RoPE): rotate pairs of features.

    Args:
        x: shape ``[N, heads, D]``.
        rotation: cosines and sines, shape ``[2, N, 1, D]``; the two halves of ``D`` are equal.

    Returns:
        Shape of ``x``; differentiable once, in ``x`` alone.

    Source:
        Su et al. 2021, arXiv:2104.09864, eq. 34, with features paired as in Llama.

    Examples:
        >>> quarter = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).view(2, 1, 1, 2)
        >>> rotate(torch.tensor([[[3.0, 4.0]]]), quarter)
        tensor([[[-4.,  3.]]])
    """
    cos, sin = rotation
    if compiles():
        return _rotate_fused(x, cos, sin)
    if not torch.is_grad_enabled():
        return _rotate(x, cos, sin)
    result: Tensor = _Rotate.apply(x, cos, sin)  # type: ignore[no-untyped-call]
    return result


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    y = x * cos
    y[..., :half].addcmul_(x[..., half:], sin[..., half:], value=-1)
    y[..., half:].addcmul_(x[..., :half], sin[..., :half])
    return y


@compiled
def _rotate_fused(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class _Rotate(torch.autograd.Function):
    """Rotation; its backward pass rotates by the negative angle, thrice as fast as autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(cos, sin)
        return _rotate(x, cos, sin)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        cos, sin = ctx.saved_tensors
        return _rotate(gradient, cos, -sin), None, None


@compiled
def silu_gate(gate: Tensor, up: Tensor) -> Tensor:
    """Compute ``silu(gate) * up``, shape ``[N, I]``, in one kernel if compiled.

    Source:
        Shazeer 2020, "GLU variants improve Transformer", arXiv:2002.05202, eq. 5 (SwiGLU).
    """
    return F.silu(gate) * up
