"""Value of a loss on a micro-batch; the loss may be of another library."""

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

    Other scalars that the loss returns are recorded as ``NAME/KEY``.

    Args:
        name: name of the loss in ``learner.losses``.
        loss: module from a TensorDict to a TensorDict.
        view: micro-batch with the keys that the loss reads.

    Raises:
        ConfigError: the loss returns no entry whose name starts with ``loss``, or such an entry is
            not a scalar.
    """
    result = loss(view)
    if not isinstance(loss, Loss):  # A module of another library may also return its inputs.
        output_keys: Any = loss.out_keys
        result = result.select(*output_keys, strict=False)
    for key, value in result.items():
        if not key.startswith("loss") and value.numel() == 1:
            record(f"{name}/{key}", value)
    return _sum_losses(name, result)


def _sum_losses(name: str, result: TensorDict) -> Tensor:
    terms = {key: value for key, value in result.items() if key.startswith("loss")}
    if not terms:
        raise ConfigError(
            f"learner.losses.{name} returned {sorted(result.keys())}: a loss writes at least "
            "one scalar whose name starts with 'loss'"
        )
    for key, value in terms.items():
        if value.numel() != 1:
            raise ConfigError(
                f"learner.losses.{name} returned '{key}' of shape {list(value.shape)}: must be "
                "a scalar; reduce it over the rows (torchrl: reduction=mean)"
            )
    return torch.stack([value.reshape(()) for value in terms.values()]).sum()


class LossValues(dict[str, float]):
    """Values of losses by name, as numbers without a gradient.

    Examples:
        >>> LossValues(loss=0.5).backward()
        Traceback (most recent call last):
            ...
        AttributeError: the losses {'loss': 0.5} are numbers without 'backward': accumulate has \
added their gradients to .grad; call learner.step(progress=...) next
    """

    def __getattr__(self, name: str) -> None:
        """Refuse attributes of tensors, such as ``backward``.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(
            f"the losses {dict(self)} are numbers without {name!r}: accumulate has added their "
            "gradients to .grad; call learner.step(progress=...) next"
        )
