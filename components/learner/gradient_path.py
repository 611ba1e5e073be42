"""Check that losses hand a gradient to the model."""

from __future__ import annotations

from collections.abc import Mapping

from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.keys import nested
from rlcomp.metrics import recording

# Keys without a gradient by definition.
_CONSTANT = {"token_weight", "loss_weight"}


def check_gradient(
    losses: nn.ModuleDict, values: Mapping[str, Tensor], views: Mapping[str, TensorDict]
) -> None:
    """Refuse losses whose value has no gradient because a part of them detaches it.

    Args:
        losses: by name.
        values: their values, computed with gradients.
        views: the batch that each loss reads.

    Raises:
        ConfigError: names the part; or the losses, where none of them has a gradient.
    """
    constant = {name: loss for name, loss in losses.items() if not values[name].requires_grad}
    for name, loss in constant.items():
        for message in _detaching_parts(loss, views[name]):
            raise ConfigError(
                f"loss '{name}': {message}, so that nothing is learnt from it: compute it without "
                "detach(), torch.no_grad(), .data, .item() or .numpy()"
            )
    if len(constant) == len(losses):
        raise ConfigError(
            f"loss {', '.join(map(repr, constant))} has no gradient: it depends on nothing that "
            "the model computes; read 'log_probs' (or another output of it) without detach()"
        )


def _detaching_parts(loss: nn.Module, view: TensorDict) -> list[str]:
    """Describe the parts that read a gradient and hand none on, in the order they ran."""
    messages: list[str] = []

    def check(path: str, part: Component, batch: TensorDict, result: TensorDict) -> None:
        reads = [key for key in part.reads if _has_gradient(batch, key)]
        writes = [key for key in part.writes if key not in _CONSTANT]
        if reads and writes and not any(_has_gradient(result, key) for key in writes):
            name = f"{path} ({type(part).__name__})" if path else type(part).__name__
            messages.append(f"{name} writes {writes[0]!r} without the gradient of {reads[0]!r}")

    hooks = [
        part.register_forward_hook(
            lambda part, inputs, result, path=path: check(path, part, inputs[0], result)
        )
        for path, part in loss.named_modules()
        if isinstance(part, Component)
    ]
    try:
        with recording():
            loss(view.copy())
    finally:
        for hook in hooks:
            hook.remove()
    return messages


def _has_gradient(batch: TensorDict, key: str) -> bool:
    value = batch.get(nested(key), None)
    return isinstance(value, Tensor) and value.requires_grad
