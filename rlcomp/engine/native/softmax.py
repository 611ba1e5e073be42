"""Log-probs of tokens and entropies of logits by the native library."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from rlcomp.engine.native.library import library
from rlcomp.engine.switch import Switch

_Pointer = ctypes.c_void_p
_Number = ctypes.c_int64
_by_library = Switch()


def by_library(wanted: bool) -> AbstractContextManager[None]:
    """Within it, and in this thread, what is read off logits is read by the library, or is not."""
    return _by_library.set(wanted)


def takes(logits: Tensor, keep: Tensor | None) -> bool:
    """Whether the library reads such logits here and now.

    Args:
        logits: shape ``[N, V]``.
        keep: tokens that may be drawn: ``[V]``, of every row the same; or ``[N, V]``.
    """
    cpu = logits.device.type == "cpu" and logits.dtype == torch.float32
    return _by_library.on and cpu and (keep is None or keep.dim() == 1)


def log_probs(logits: Tensor, tokens: Tensor, temperature: float, keep: Tensor | None) -> Tensor:
    """``log softmax(z / T)`` of one token a row, shape ``[N]``, nats, differentiable once.

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


def log_probs_slope(
    gradient: Tensor, logits: Tensor, tokens: Tensor, temperature: float, keep: Tensor | None
) -> Tensor:
    """The gradient of :func:`log_probs` with respect to the logits, shape ``[N, V]``."""
    logits, gradient, bias = logits.contiguous(), gradient.contiguous(), _bias(keep)
    tokens, out = _checked(tokens, logits.shape[1]), torch.empty_like(logits)
    given = _given(logits, bias, temperature)
    library().rlcomp_log_probs_backward(*given, *map(_at, (tokens, gradient, out)))
    return out


def entropies(logits: Tensor, temperature: float, keep: Tensor | None) -> Tensor:
    """``H = -sum_v p_v log p_v`` of ``p = softmax(z / T)``, ``[N]``, nats, differentiable once.

    Arguments are those of :func:`log_probs`.

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
        logits, tokens = logits.contiguous(), _checked(tokens, logits.shape[1])
        ctx.save_for_backward(logits, tokens, keep)
        ctx.temperature = temperature
        bias, out = _bias(keep), torch.empty(len(logits))
        given = _given(logits, bias, temperature)
        library().rlcomp_log_probs(*given, _at(tokens), _at(out))
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # noqa: ANN401
        logits, tokens, keep = ctx.saved_tensors
        return log_probs_slope(gradient, logits, tokens, ctx.temperature, keep), None, None, None


class _Entropies(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        logits: Tensor,
        temperature: float,
        keep: Tensor | None,
    ) -> Tensor:
        logits, bias, out = logits.contiguous(), _bias(keep), torch.empty(len(logits))
        ctx.save_for_backward(logits, keep)
        ctx.temperature = temperature
        library().rlcomp_entropies(*_given(logits, bias, temperature), _at(out))
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        logits, keep = ctx.saved_tensors
        gradient, bias, out = gradient.contiguous(), _bias(keep), torch.empty_like(logits)
        given = _given(logits, bias, ctx.temperature)
        library().rlcomp_entropies_backward(*given, _at(gradient), _at(out))
        return out, None, None


def _bias(keep: Tensor | None) -> Tensor | None:
    """What is added to the logits: ``-inf`` where a token is never drawn."""
    return None if keep is None else torch.zeros(len(keep)).masked_fill_(~keep, -torch.inf)


def _checked(tokens: Tensor, vocabulary: int) -> Tensor:
    """Tokens as the library reads them.

    Raises:
        IndexError: one is not in the vocabulary.
    """
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary:
        raise IndexError(f"a token is not among the {vocabulary} of the vocabulary")
    return tokens.contiguous()


def _given(logits: Tensor, bias: Tensor | None, temperature: float) -> tuple[object, ...]:
    """The first arguments of each function."""
    rows, size = (_Number(each) for each in logits.shape)
    place = None if bias is None else _at(bias)
    return _at(logits), place, ctypes.c_double(temperature), rows, size


def _at(tensor: Tensor) -> ctypes.c_void_p:
    return _Pointer(tensor.data_ptr())
