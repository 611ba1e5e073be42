"""FSDP2 for models of transformers, by their own forward pass and by ours."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar

from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from transformers import PreTrainedModel

from rlcomp.engine.transformer import WITHIN
from rlcomp.errors import ConfigError

T = TypeVar("T")


def shard_model(module: nn.Module, mesh: Any) -> list[FSDPModule]:  # noqa: ANN401
    """Put the parameters of the models in a module into parts; others are left alone.

    A layer is whole while it runs, in the forward pass and in the backward pass; what is in no
    layer (embedding, last norm, head) from the first to the last of both.

    Args:
        module: holds models of transformers.
        mesh: of the ranks.

    Returns:
        The outermost models.

    Raises:
        ConfigError: there is none, or transformers does not say what its layers are.
    """
    inside = {
        id(part)
        for model in module.modules()
        if isinstance(model, PreTrainedModel)
        for part in model.modules()
        if part is not model
    }
    models = [m for m in module.modules() if isinstance(m, PreTrainedModel) and id(m) not in inside]
    if not models:
        raise ConfigError(
            f"parallel=shard puts the layers of language models into parts, and "
            f"{type(module).__name__} holds none: use parallel=replicate"
        )
    return [_sharded(model, mesh) for model in models]


def _sharded(model: PreTrainedModel, mesh: Any) -> FSDPModule:  # noqa: ANN401
    kinds = {*(model._no_split_modules or ())}
    layers = [part for part in model.modules() if type(part).__name__ in kinds]
    if not layers:
        raise ConfigError(
            f"parallel=shard: transformers names no layers of {type(model).__name__} "
            "(_no_split_modules): use parallel=replicate"
        )
    single = {p for p in model.parameters() if p.ndim == 0}  # has no rows
    for part in (*layers, model):
        setattr(part, WITHIN, MethodType(_run, part))
        # The model itself stays whole behind its forward pass: its head is read then.
        sharded: FSDPModule = fully_shard(
            part, mesh=mesh, reshard_after_forward=part is not model, ignored_params=single
        )
        register_fsdp_forward_method(part, WITHIN)
        # Losses are sums over the whole step already: gradients are added up, not averaged.
        sharded.set_gradient_divide_factor(1.0)
        # Gloo cannot scale while it sums.
        sharded.set_force_sum_reduction_for_comms(True)
    return sharded


def _run(self: nn.Module, function: Callable[..., T], *given: object) -> T:
    """Run a function while this module's parameters are whole."""
    del self
    return function(*given)
