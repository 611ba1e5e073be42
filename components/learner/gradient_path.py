"""Which part of a loss cuts the gradient."""

from __future__ import annotations

from collections.abc import Mapping

from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.keys import nested
from rlcomp.metrics import recording

# What is a constant of a loss, whatever it is computed from.
_CONSTANT = {"token_weight", "loss_weight"}


def check_gradient(
    losses: nn.ModuleDict, values: Mapping[str, Tensor], views: Mapping[str, TensorDict]
) -> None:
    """Refuse losses whose value has no gradient because a part of them detaches it.

    Args:
        losses: by name.
        values: of them, computed with gradients.
        views: what each of them reads.

    Raises:
        ConfigError: names the part; or the losses, where none of them has a gradient.
    """
    cut = {name: loss for name, loss in losses.items() if not values[name].requires_grad}
    for name, loss in cut.items():
        for told in _cutting(loss, views[name]):
            raise ConfigError(
                f"loss '{name}': {told}, so that nothing is learnt from it: compute it without "
                "detach(), torch.no_grad(), .data, .item() or .numpy()"
            )
    if len(cut) == len(losses):
        raise ConfigError(
            f"loss {', '.join(map(repr, cut))} has no gradient: it depends on nothing that the "
            "model computes; read 'log_probs' (or another output of it) without detach()"
        )


def _cutting(loss: nn.Module, view: TensorDict) -> list[str]:
    """What to say of the parts that read a gradient and hand none on, in the order they ran."""
    found: list[str] = []

    def look(path: str, part: Component, given: TensorDict, result: TensorDict) -> None:
        reads = [key for key in part.reads if _has_gradient(given, key)]
        writes = [key for key in part.writes if key not in _CONSTANT]
        if reads and writes and not any(_has_gradient(result, key) for key in writes):
            name = f"{path} ({type(part).__name__})" if path else type(part).__name__
            found.append(f"{name} writes {writes[0]!r} without the gradient of {reads[0]!r}")

    hooks = [
        part.register_forward_hook(
            lambda part, given, result, path=path: look(path, part, given[0], result)
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
    return found


def _has_gradient(batch: TensorDict, key: str) -> bool:
    value = batch.get(nested(key), None)
    return isinstance(value, Tensor) and value.requires_grad
