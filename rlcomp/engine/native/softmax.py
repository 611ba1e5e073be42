"""Log-probs of tokens and entropies of logits by the native library."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from rlcomp.engine.autograd import differentiable_once
from rlcomp.engine.compiling import ThreadFlag
from rlcomp.engine.native.library import address, int64, library
from rlcomp.errors import ShapeError

_uses_library = ThreadFlag()


def use_library(on: bool) -> AbstractContextManager[None]:
    """Return a context that switches the functions of this module on or off in this thread."""
    return _uses_library.set(on)


def is_supported(logits: Tensor, keep: Tensor | None) -> bool:
    """Return whether the functions of this module are on and support the logits.

    Args:
        logits: shape ``[N, V]``.
        keep: tokens that may be drawn: ``[V]``, the same in every row; or ``[N, V]``.
    """
    cpu = logits.device.type == "cpu" and logits.dtype == torch.float32
    return _uses_library.on and cpu and (keep is None or keep.dim() == 1)


def log_probs(logits: Tensor, tokens: Tensor, temperature: float, keep: Tensor | None) -> Tensor:
    """Compute ``log softmax(z / T)`` of one token per row, ``[N]``, nats, differentiable once.

    Args:
        logits: ``z``, shape ``[N, V]``, float32, on the CPU.
        tokens: shape ``[N]``, int64.
        temperature: ``T``, above 0.
        keep: tokens that may be drawn, shape ``[V]``, bool; None for all.

    Source:
        Bridle 1990, "Probabilistic interpretation of feedforward classification network outputs",
        section 3.
    """
    result: Tensor = _LogProbs.apply(logits, tokens, temperature, keep)  # type: ignore[no-untyped-call]
    return result


def log_probs_gradient(
    gradient: Tensor, logits: Tensor, tokens: Tensor, temperature: float, keep: Tensor | None
) -> Tensor:
    """Compute the gradient of :func:`log_probs` with respect to the logits, shape ``[N, V]``."""
    logits, gradient, mask = (
        logits.contiguous(),
        _row_gradient(gradient, logits),
        _mask(keep, logits),
    )
    tokens, out = _tokens(tokens, logits), torch.empty_like(logits)
    arguments = _arguments(logits, mask, temperature)
    library().rlcomp_log_probs_backward(*arguments, *map(address, (tokens, gradient, out)))
    return out


def entropies(logits: Tensor, temperature: float, keep: Tensor | None) -> Tensor:
    """Compute ``H = -sum_v p_v log p_v`` of ``p = softmax(z / T)``, nats, differentiable once.

    Takes the arguments of :func:`log_probs`; returns shape ``[N]``.

    Source:
        Shannon 1948, "A mathematical theory of communication", section 6.
    """
    result: Tensor = _Entropies.apply(logits, temperature, keep)  # type: ignore[no-untyped-call]
    return result


class _LogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        logits: Tensor,
        tokens: Tensor,
        temperature: float,
        keep: Tensor | None,
    ) -> Tensor:
        logits, tokens = logits.contiguous(), _tokens(tokens, logits)
        ctx.save_for_backward(logits, tokens, keep)
        ctx.temperature = temperature
        mask, out = _mask(keep, logits), logits.new_empty(len(logits))
        arguments = _arguments(logits, mask, temperature)
        library().rlcomp_log_probs(*arguments, address(tokens), address(out))
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # noqa: ANN401
        logits, tokens, keep = ctx.saved_tensors
        return log_probs_gradient(gradient, logits, tokens, ctx.temperature, keep), None, None, None


class _Entropies(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        logits: Tensor,
        temperature: float,
        keep: Tensor | None,
    ) -> Tensor:
        logits, mask, out = logits.contiguous(), _mask(keep, logits), logits.new_empty(len(logits))
        ctx.save_for_backward(logits, keep)
        ctx.temperature = temperature
        library().rlcomp_entropies(*_arguments(logits, mask, temperature), address(out))
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        logits, keep = ctx.saved_tensors
        gradient, mask = _row_gradient(gradient, logits), _mask(keep, logits)
        arguments, out = _arguments(logits, mask, ctx.temperature), torch.empty_like(logits)
        library().rlcomp_entropies_backward(*arguments, address(gradient), address(out))
        return out, None, None


def _mask(keep: Tensor | None, logits: Tensor) -> Tensor | None:
    """Return the additive mask of the logits: ``-inf`` where a token is never drawn.

    Raises:
        ShapeError: ``keep`` is not of shape ``[V]``.
    """
    if keep is None:
        return None
    if keep.shape != logits.shape[1:]:
        raise ShapeError(f"keep has shape {tuple(keep.shape)}, must be ({logits.shape[1]},)")
    return logits.new_zeros(len(keep)).masked_fill_(~keep, -torch.inf)


def _tokens(tokens: Tensor, logits: Tensor) -> Tensor:
    """Return checked tokens: the library does not check its memory bounds.

    Raises:
        ShapeError: the shape is not ``[N]``, or the dtype not int64.
        IndexError: a token is not in the vocabulary.
    """
    rows, vocabulary = logits.shape
    if tokens.shape != (rows,) or tokens.dtype != torch.int64:
        raise ShapeError(
            f"tokens have shape {tuple(tokens.shape)} and {tokens.dtype}, must be ({rows},), int64"
        )
    invalid = ((tokens < 0) | (tokens >= vocabulary)).nonzero().flatten()
    if len(invalid):
        row = int(invalid[0])
        raise IndexError(f"token {int(tokens[row])} of row {row}: the vocabulary has {vocabulary}")
    return tokens.contiguous()


def _row_gradient(gradient: Tensor, logits: Tensor) -> Tensor:
    """Return the checked gradient with respect to the rows' values, ``[N]``."""
    if gradient.shape != logits.shape[:1]:
        raise ShapeError(f"gradient has shape {tuple(gradient.shape)}, must be ({len(logits)},)")
    return gradient.to(logits.dtype).contiguous()


def _arguments(logits: Tensor, mask: Tensor | None, temperature: float) -> tuple[object, ...]:
    """Return the arguments that all functions of the library have in common."""
    pointer = None if mask is None else address(mask)
    return address(logits), pointer, ctypes.c_double(temperature), *map(int64, logits.shape)
