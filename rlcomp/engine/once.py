"""Backward passes in closed form: differentiable once, and refused a second time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]


def differentiable_once(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """A backward pass whose gradients have no derivative of their own.

    :func:`torch.autograd.function.once_differentiable` lets a gradient that was asked for with
    ``create_graph`` pass for a constant where the gradient that came in is one: its derivative
    would be 0. Here it is refused, when it is asked for.

    Args:
        backward: of a :class:`torch.autograd.Function`.
    """

    @wraps(backward)
    def call(ctx: Any, *gradients: Tensor | None) -> Gradients:  # noqa: ANN401
        with torch.no_grad():
            found = backward(ctx, *gradients)
        if not torch.is_grad_enabled():
            return found
        alone = (found,) if isinstance(found, Tensor) else found
        return tuple(None if each is None else _refused(each) for each in alone)

    return call


def _refused(gradient: Tensor) -> Tensor:
    leaf = gradient.detach().requires_grad_()
    result: Tensor = _Refused.apply(leaf)  # type: ignore[no-untyped-call]
    return result


class _Refused(torch.autograd.Function):
    """A gradient as it is, whose derivative is refused."""

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
