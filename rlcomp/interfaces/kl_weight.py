"""Weight of the KL penalty by row, so that domains may move further from the reference."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor


def times_kl_weight(penalty: Tensor, batch: TensorDict) -> Tensor:
    """Multiply a KL penalty by its row's ``kl_weight``, if a stage wrote it.

    Args:
        penalty: shape ``[B]`` or ``[B, T]``.
        batch: may hold ``kl_weight`` ``[B]``, at least 0.

    Returns:
        The penalty's shape.
    """
    if "kl_weight" not in batch.keys():
        return penalty
    weight: Tensor = batch["kl_weight"].detach().to(penalty.dtype)
    return penalty * (weight if penalty.dim() == 1 else weight[:, None])
