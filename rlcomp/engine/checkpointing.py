"""Gradient checkpointing: layers are computed again in the backward pass, to save memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from rlcomp.errors import ConfigError


def checkpointed(layer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    """Return the output of a layer, and keep only its inputs for the backward pass.

    Without a gradient it is a plain call. The numbers are the same, since no layer draws at random.

    Source:
        Chen et al. 2016, arXiv:1604.06174, section 4.
    """
    if not torch.is_grad_enabled():
        return layer(*args, **kwargs)
    return checkpoint(layer, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)


class CheckpointedForward:
    """Replacement of a layer's ``forward``; a copy of the layer gets a replacement of its own.

    Args:
        forward: the bound method of the layer.
    """

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Return the layer's output."""
        return checkpointed(self.forward, *args, **kwargs)


def checkpoint_layers(model: nn.Module) -> None:
    """Checkpoint every layer of a transformers model in its own forward pass.

    transformers has a switch for this, but it acts only in training mode, where dropout is on.

    Args:
        model: changed in place.

    Raises:
        ConfigError: transformers marks no layer of the model.
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
