"""RMSNorm with an explicit backward pass."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.engine.compiling import compiled
from rlcomp.engine.once_differentiable import differentiable_once


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Compute ``weight * x / sqrt(mean(x^2) + eps)`` over the last dimension, in float32.

    On a GPU it is torch's own function. On a CPU the gradient by autograd takes several times as
    long (the derivative of a power).

    Args:
        x: shape ``[..., H]``.
        weight: shape ``[H]``.
        eps: added to the mean square.

    Returns:
        Shape of ``x``, in its dtype; differentiable once.

    Source:
        Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4.

    Examples:
        >>> rms_norm(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 1.0]), 0.0)
        tensor([[0.8485, 1.1314]])
    """
    if x.is_cuda:  # one kernel for forward and one for backward
        return F.rms_norm(x, weight.shape, weight.to(x.dtype), eps)
    if not torch.is_grad_enabled():
        return _weighed(weight, _unit(x, eps)[0], x)
    result: Tensor = _RmsNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return result


@compiled
def rms_norm_to(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """Compute :func:`rms_norm` in a given dtype, by torch's operations: one kernel if compiled.

    Args:
        x: shape ``[..., H]``.
        weight: shape ``[H]``.
        eps: added to the mean square.
        dtype: of the result.

    Source:
        as :func:`rms_norm`.
    """
    return F.rms_norm(x, weight.shape, weight.to(x.dtype), eps).to(dtype)


def _weighed(weight: Tensor, unit: Tensor, x: Tensor) -> Tensor:
    """Return the product in the dtype of ``x``; a wider weight is multiplied before rounding."""
    if weight.dtype == x.dtype:
        return weight * unit.to(x.dtype)
    return (weight * unit).to(x.dtype)


def _unit(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
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
        return _weighed(weight, unit, x)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:  # noqa: ANN401
        x, weight, scale = ctx.saved_tensors
        wide = gradient.to(scale.dtype)
        unit = x * scale
        dx = dw = None
        if ctx.needs_input_grad[0]:
            along = wide * weight
            share = (along * unit).sum(-1, keepdim=True) / x.shape[-1]
            dx = ((along - unit * share) * scale).to(x.dtype)
        if ctx.needs_input_grad[1]:
            dw = (wide * unit).reshape(-1, x.shape[-1]).sum(0).to(weight.dtype)
        return dx, dw, None
