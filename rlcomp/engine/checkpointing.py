"""Gradient checkpointing: layers that are computed again in the backward pass, to save memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from rlcomp.errors import ConfigError


def checkpointed(layer: Callable[..., Any], *given: Any, **named: Any) -> Any:  # noqa: ANN401
    """The output of a layer, of which only the inputs are kept for the backward pass.

    Without gradient it is a plain call. Numbers are the same: nothing here draws.

    Source:
        Chen et al. 2016, arXiv:1604.06174, section 4.
    """
    if not torch.is_grad_enabled():
        return layer(*given, **named)
    return checkpoint(layer, *given, use_reentrant=False, preserve_rng_state=False, **named)


class CheckpointedForward:
    """Stands in for a layer's ``forward``; a copy of the layer gets its own.

    Args:
        forward: the layer's own, bound.
    """

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward

    def __call__(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        """The layer's output."""
        return checkpointed(self.forward, *given, **named)


def checkpoint_layers(model: nn.Module) -> None:
    """Checkpoint every layer of a model of transformers, in its own forward pass.

    transformers has a switch for this, but only for models in training mode, where dropout is on.

    Args:
        model: changed in place.

    Raises:
        ConfigError: transformers marks no layer of it.
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
