"""Backward passes in closed form: differentiable once; a second derivative is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]


def differentiable_once(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Wrap a backward pass whose gradients have no derivative.

    :func:`torch.autograd.function.once_differentiable` treats a gradient computed with
    ``create_graph`` as a constant if the incoming gradient is a constant: its derivative would be
    0. This wrapper raises an error when that derivative is computed.

    Args:
        backward: of a :class:`torch.autograd.Function`.
    """

    @wraps(backward)
    def call(ctx: Any, *gradients: Tensor | None) -> Gradients:  # noqa: ANN401
        with torch.no_grad():
            results = backward(ctx, *gradients)
        if not torch.is_grad_enabled():
            return results
        alone = (results,) if isinstance(results, Tensor) else results
        return tuple(None if each is None else _refused(each) for each in alone)

    return call


def _refused(gradient: Tensor) -> Tensor:
    leaf = gradient.detach().requires_grad_()
    result: Tensor = _Refused.apply(leaf)  # type: ignore[no-untyped-call]
    return result


class _Refused(torch.autograd.Function):
    """Identity on a gradient; its derivative is refused."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        del ctx
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        del ctx, gradient
        raise RuntimeError(
            "the packed forward pass is differentiable once: for second derivatives use "
            "engine=transformers"
        )
