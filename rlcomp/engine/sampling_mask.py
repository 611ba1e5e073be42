"""Sampling masks (top-k, top-p, min-p) packed to one bit per vocabulary token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# The bit order of numpy: the first token of a byte is its highest bit.
_HIGHEST = 128


def pack(kept: Tensor) -> Tensor:
    """Pack a sampling mask, eight tokens per byte, in the order of ``numpy.packbits``.

    Args:
        kept: shape ``[..., V]``, bool.

    Returns:
        Shape ``[..., ceil(V / 8)]``, uint8; the bits beyond ``V`` are 0.

    Examples:
        >>> pack(torch.tensor([True, False, False, False, False, False, False, True, True]))
        tensor([129, 128], dtype=torch.uint8)
    """
    bits = F.pad(kept, (0, -kept.shape[-1] % 8)).view(*kept.shape[:-1], -1, 8)
    weights = _weights(kept.device)
    return (bits * weights).sum(-1, dtype=torch.uint8)


def unpack(packed: Tensor, vocabulary: int) -> Tensor:
    """Unpack a sampling mask packed by :func:`pack`.

    Args:
        packed: shape ``[..., ceil(V / 8)]``, uint8.
        vocabulary: ``V``.

    Returns:
        Shape ``[..., V]``, bool.

    Examples:
        >>> unpack(torch.tensor([128], dtype=torch.uint8), 3)
        tensor([ True, False, False])
    """
    weights = _weights(packed.device)
    return ((packed[..., None] & weights) != 0).flatten(-2)[..., :vocabulary]


def contains(packed: Tensor, tokens: Tensor) -> Tensor:
    """Return whether each packed sampling mask contains a token.

    Args:
        packed: shape ``[N, ceil(V / 8)]``, uint8.
        tokens: shape ``[N]``, int64.

    Returns:
        Shape ``[N]``, bool.

    Examples:
        >>> contains(torch.tensor([[128], [128]], dtype=torch.uint8), torch.tensor([0, 1]))
        tensor([ True, False])
    """
    byte = packed.gather(-1, tokens[:, None] // 8).squeeze(-1)
    return (byte >> (7 - tokens % 8)) & 1 == 1


def _weights(device: torch.device) -> Tensor:
    """Return the weights of a byte's bits, created on the device: a copy would wait for it."""
    highest = torch.full((8,), _HIGHEST, dtype=torch.uint8, device=device)
    return highest >> torch.arange(8, dtype=torch.uint8, device=device)
