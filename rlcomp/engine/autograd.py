"""Autograd functions: explicit backward passes, and gradient checkpointing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from rlcomp.errors import ConfigError

Gradients = tuple[Tensor | None, ...]


def differentiable_once(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Wrap the backward pass of a :class:`torch.autograd.Function` that has no second derivative.

    :func:`torch.autograd.function.once_differentiable` treats a gradient computed with
    ``create_graph`` as a constant if the incoming gradient is a constant: its derivative would be
    0. This wrapper raises an error when that derivative is computed.
    """

    @wraps(backward)
    def call(ctx: Any, *gradients: Tensor | None) -> Gradients:  # noqa: ANN401
        with torch.no_grad():
            results = backward(ctx, *gradients)
        if not torch.is_grad_enabled():
            return results
        gradients_of_inputs = (results,) if isinstance(results, Tensor) else results
        return tuple(
            None if each is None else _NoDerivative.apply(each.detach().requires_grad_())  # type: ignore[no-untyped-call]
            for each in gradients_of_inputs
        )

    return call


class _NoDerivative(torch.autograd.Function):
    """Identity on a gradient; computing its derivative is an error."""

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


def run_checkpointed(layer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    """Return the output of a layer, and keep only its inputs for the backward pass.

    Layers must not draw random numbers: the generator's state is not restored.

    Source:
        Chen et al. 2016, arXiv:1604.06174, section 4.
    """
    if not torch.is_grad_enabled():
        return layer(*args, **kwargs)
    return checkpoint(layer, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)


class CheckpointedForward:
    """Checkpointed replacement of a layer's bound ``forward``; pickled and copied with it."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Return the layer's output."""
        return run_checkpointed(self.forward, *args, **kwargs)


def checkpoint_layers(model: nn.Module) -> None:
    """Checkpoint every layer of a transformers model, in place.

    The switch of transformers (``gradient_checkpointing_enable``) acts only in training mode, which
    also turns on dropout.

    Raises:
        ConfigError: the model has no ``GradientCheckpointingLayer``.
    """
    layers = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    if not layers:
        raise ConfigError(
            f"engine.checkpointing is true, but {type(model).__name__} has no layers that can be "
            "computed again: set engine.checkpointing=false"
        )
    for layer in layers:
        if not isinstance(layer.forward, CheckpointedForward):
            layer.forward = CheckpointedForward(layer.forward)
