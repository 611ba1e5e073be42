"""How tokens share the loss of one optimiser step: weights that do not depend on any later split.

``N`` tokens inside the mask, ``S`` rows with at least one of them, ``n_i`` tokens of row i.
"""

from __future__ import annotations

from torch import Tensor


def token_mean(mask: Tensor) -> Tensor:
    """Every token weighs 1 / N (DAPO, arXiv:2503.14476, eq. 8).

    Args:
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, float32, 0 outside the mask; sums to 1.

    Examples:
        >>> import torch
        >>> token_mean(torch.tensor([[True, True], [True, False]]))[0]
        tensor([0.3333, 0.3333])
    """
    return mask / mask.sum().clamp(min=1)


def sequence_mean(mask: Tensor) -> Tensor:
    """Every row weighs 1 / S, its tokens share it equally (GRPO, arXiv:2402.03300, eq. 3)."""
    lengths = mask.sum(1, keepdim=True)
    return mask / lengths.clamp(min=1) / (lengths > 0).sum().clamp(min=1)


def sequence_sum(mask: Tensor) -> Tensor:
    """Every token weighs 1 / S: the exact policy gradient of the mean return."""
    return mask / mask.any(1).sum().clamp(min=1)


def fixed_length(mask: Tensor, length: int) -> Tensor:
    """Every token weighs 1 / (S * length) (Dr. GRPO, arXiv:2503.20783, section 3.2).

    Args:
        mask: shape ``[B, T]``, bool.
        length: the constant that stands for a response's length, in tokens.
    """
    return sequence_sum(mask) / length
