"""Value of a loss on a micro-batch, also of losses from other libraries."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.errors import ConfigError
from rlcomp.interfaces.loss import Loss
from rlcomp.metrics import record


def loss_value(name: str, loss: nn.Module, view: TensorDict) -> Tensor:
    """Return the sum of the entries of a loss whose names start with ``loss``, a scalar.

    Further scalars that it returns are recorded, as ``NAME/KEY``.

    Args:
        name: of the loss in ``learner.losses``.
        loss: takes a TensorDict and returns one.
        view: a micro-batch as the loss reads it.

    Raises:
        ConfigError: there is no such entry, or one is not a scalar.
    """
    result = loss(view)
    if not isinstance(loss, Loss):  # a foreign module may return its inputs as well
        written: Any = loss.out_keys
        result = result.select(*written, strict=False)
    for key, other in result.items():  # further metrics of a foreign loss
        if not key.startswith("loss") and other.numel() == 1:
            record(f"{name}/{key}", other)
    return _summed(name, result)


def _summed(name: str, result: TensorDict) -> Tensor:
    terms = {key: value for key, value in result.items() if key.startswith("loss")}
    if not terms:
        raise ConfigError(
            f"learner.losses.{name} returned {sorted(result.keys())}: a loss writes at least "
            "one scalar whose name starts with 'loss'"
        )
    for key, value in terms.items():
        if value.numel() != 1:
            raise ConfigError(
                f"learner.losses.{name} returned '{key}' of shape {list(value.shape)}: a loss "
                "is one number; let it reduce over the rows (torchrl: reduction=mean)"
            )
    return torch.stack([value.reshape(()) for value in terms.values()]).sum()


class Values(dict[str, float]):
    """Values of losses by name: numbers, no tensors to differentiate.

    Examples:
        >>> Values(loss=0.5).backward()
        Traceback (most recent call last):
            ...
        AttributeError: these are numbers by name, {'loss': 0.5}, with no 'backward': accumulate \
has added their gradients to .grad; go on with learner.step(progress=...)
    """

    def __getattr__(self, name: str) -> None:
        """Refuse tensor methods: the gradients are added already.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(
            f"these are numbers by name, {dict(self)}, with no {name!r}: accumulate has added "
            "their gradients to .grad; go on with learner.step(progress=...)"
        )
