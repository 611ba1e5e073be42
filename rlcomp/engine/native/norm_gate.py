"""RMSNorm and SiLU gate by the native library, differentiable once."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from rlcomp.engine.autograd import differentiable_once
from rlcomp.engine.native.library import address, int64, library


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Compute ``weight * x / sqrt(mean(x^2) + eps)``.

    Args:
        x: shape ``[..., H]``, float32, on the CPU.
        weight: shape ``[H]``.
        eps: added to the mean square.

    Source:
        Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4.
    """
    if not torch.is_grad_enabled():
        return _norm(x.contiguous(), weight.contiguous(), eps)[0]
    result: Tensor = _NativeRmsNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return result


def silu_gate(gate: Tensor, up: Tensor) -> Tensor:
    """Compute ``silu(gate) * up`` of two tensors of the same shape, float32, on the CPU.

    Source:
        Shazeer 2020, arXiv:2002.05202, eq. 5.
    """
    if not torch.is_grad_enabled():
        return _gate(gate.contiguous(), up.contiguous())
    result: Tensor = _SiluGate.apply(gate, up)  # type: ignore[no-untyped-call]
    return result


def _norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    size = x.shape[-1]
    rows = x.numel() // size
    # The scale of a row is 1 / sqrt(mean(x^2) + eps).
    out, scale = torch.empty_like(x), x.new_empty(rows)
    library().rlcomp_rms_norm(
        address(x),
        address(weight),
        ctypes.c_double(eps),
        int64(rows),
        int64(size),
        address(out),
        address(scale),
    )
    return out, scale


class _NativeRmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:  # noqa: ANN401
        x, weight = x.contiguous(), weight.contiguous()
        out, scale = _norm(x, weight, eps)
        ctx.save_for_backward(x, weight, scale)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:  # noqa: ANN401
        x, weight, scale = ctx.saved_tensors
        gradient = gradient.contiguous()
        dx = torch.empty_like(x)
        dw = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        library().rlcomp_rms_norm_backward(
            *(address(each) for each in (x, weight, scale, gradient)),
            int64(len(scale)),
            int64(x.shape[-1]),
            address(dx),
            None if dw is None else address(dw),
        )
        return dx, dw, None


def _gate(gate: Tensor, up: Tensor) -> Tensor:
    out = torch.empty_like(gate)
    library().rlcomp_gate(address(gate), address(up), int64(gate.numel()), address(out))
    return out


class _SiluGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:  # noqa: ANN401
        gate, up = gate.contiguous(), up.contiguous()
        ctx.save_for_backward(gate, up)
        return _gate(gate, up)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        gate, up = ctx.saved_tensors
        gradient = gradient.contiguous()
        dgate, dup = torch.empty_like(gate), torch.empty_like(up)
        library().rlcomp_gate_backward(
            *(address(each) for each in (gate, up, gradient)),
            int64(gate.numel()),
            address(dgate),
            address(dup),
        )
        return dgate, dup
