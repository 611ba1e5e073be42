"""The weight of the KL penalty by row: domains that may move further from the reference."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor


def times_kl_weight(penalty: Tensor, batch: TensorDict) -> Tensor:
    """A KL penalty times ``kl_weight`` of its row; as it is where no stage wrote any.

    Args:
        penalty: shape ``[B]`` or ``[B, T]``.
        batch: ``kl_weight`` ``[B]``, at least 0, if it has one.

    Returns:
        Of the penalty's shape.
    """
    if "kl_weight" not in batch.keys():
        return penalty
    weight: Tensor = batch["kl_weight"].detach().to(penalty.dtype)
    return penalty * (weight if penalty.dim() == 1 else weight[:, None])
