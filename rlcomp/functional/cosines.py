"""Cosine similarity of a weighted sum with each of its vectors."""

from __future__ import annotations

import torch
from torch import Tensor

# A sum this much shorter than its terms together is a rounding error of 0.
CANCELLED = 1e-6


def cosines(gram: Tensor, weights: Tensor) -> Tensor:
    """Compute the cosine similarity of ``sum_j w_j g_j`` with each vector ``g_i``.

    Where the terms cancel (the sum is shorter than 1e-6 of their summed lengths), the divisor is
    this bound instead of the sum's norm, so that rounding noise has a cosine near 0.

    Args:
        gram: inner products of the vectors, shape ``[K, K]``.
        weights: w, shape ``[K]``.

    Returns:
        Shape ``[K]``, float64, in [-1, 1], dimensionless; 0 for a vector that is 0, and everywhere
        if the sum is 0.

    Source:
        This project.

    Examples:
        >>> cosines(torch.tensor([[1.0, 0.0], [0.0, 4.0]]), torch.tensor([3.0, -2.0])).tolist()
        [0.6, -0.8]
    """
    gram, weights = gram.detach().cpu().double(), weights.detach().cpu().double()
    lengths, along = gram.diagonal().clamp(min=0).sqrt(), gram @ weights
    length = (weights @ along).clamp(min=0).sqrt()
    whole = lengths * torch.maximum(length, CANCELLED * (weights.abs() @ lengths))
    return torch.where(whole > 0, along / whole, torch.zeros_like(along)).clamp(-1, 1)
