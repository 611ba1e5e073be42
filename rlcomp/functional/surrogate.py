"""Per-token objectives of the policy, to be maximised."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import ShapeError


def clipped_surrogate(
    ratio: Tensor, advantage: Tensor, clip_low: float, clip_high: float
) -> Tensor:
    """PPO's pessimistic surrogate, per token, to be maximised.

    Args:
        ratio: pi(a|s) / pi_old(a|s), shape ``[B, T]``, dimensionless.
        advantage: shape ``[B, T]``, in reward units.
        clip_low: the ratio's floor is ``1 - clip_low``; in [0, 1).
        clip_high: the ratio's ceiling is ``1 + clip_high``; >= 0.

    Returns:
        Shape ``[B, T]``, in reward units.

    Raises:
        ShapeError: the two tensors differ in shape.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 7; asymmetric bounds arXiv:2503.14476, eq. 10.

    Examples:
        >>> clipped_surrogate(torch.tensor([[2.0]]), torch.tensor([[1.0]]), 0.2, 0.2)
        tensor([[1.2000]])
    """
    if ratio.shape != advantage.shape:
        raise ShapeError(
            f"'ratio' has shape {list(ratio.shape)}, but 'advantage' has {list(advantage.shape)}"
        )
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    return torch.minimum(ratio * advantage, clipped * advantage)
