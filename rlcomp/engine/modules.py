"""Modules of a model applied by kernels of rlcomp: linear layers and norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from rlcomp.engine.compiling import compiles
from rlcomp.engine.layer_functions import fused_rms_norm, rms_norm
from rlcomp.engine.linear import Kernel, linear
from rlcomp.engine.native import norm_gate

# Name of a sharded module's method that calls a function with gathered parameters.
GATHERED_CALL = "packed_pass"
T = TypeVar("T")


def with_parameters(module: nn.Module, function: Callable[..., T], *args: object) -> T:
    """Call a function that reads a module's parameters; return its result.

    A sharded module (:mod:`rlcomp.parallel.sharded`) gathers its parameters for the call.
    """
    run = vars(module).get(GATHERED_CALL)
    result: T = function(*args) if run is None else run(function, *args)
    return result


def apply_linear(module: nn.Module, x: Tensor, kernel: Kernel) -> Tensor:
    """Apply a linear layer by a kernel, or by its own forward if it has adapters or hooks."""
    if not has_hooks(module):
        if type(module) is nn.Linear:
            bias = None if module.bias is None else module.bias.to(x.dtype)
            return linear(x, module.weight.to(x.dtype), bias, kernel)
        if isinstance(module, Conv1D):
            weight, bias = cast("Tensor", module.weight), cast("Tensor", module.bias)
            return linear(x, weight.to(x.dtype).t(), bias.to(x.dtype), kernel)
    return _call(module, x)


def _call(module: nn.Module, x: Tensor) -> Tensor:
    """Call a module in the dtype of its weights; return the result in the dtype of the input."""
    dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), x.dtype)
    result: Tensor = module(x.to(dtype))
    return result.to(x.dtype)


def apply_norm(
    module: nn.Module, x: Tensor, compute: torch.dtype | None = None, native: bool = False
) -> Tensor:
    """Apply a normalisation layer; return the result in the dtype ``compute`` (None: of ``x``).

    A LayerNorm and a norm with hooks run their own forward; kernels of rlcomp compute an RMSNorm.
    With ``native`` the kernel is of the native library, unless the weight has another dtype than
    ``x``.
    """
    if isinstance(module, nn.LayerNorm) or has_hooks(module):
        y = _call(module, x)
    elif compiles():
        return fused_rms_norm(x, module.weight, module.variance_epsilon, compute or x.dtype)  # type: ignore[arg-type]
    else:
        norm = norm_gate.rms_norm if native and module.weight.dtype == x.dtype else rms_norm
        y = norm(x, module.weight, module.variance_epsilon)  # type: ignore[arg-type]
    return y if compute is None else y.to(compute)


def has_hooks(module: nn.Module) -> bool:
    """Return whether a module has forward hooks."""
    return bool(module._forward_hooks or module._forward_pre_hooks)
