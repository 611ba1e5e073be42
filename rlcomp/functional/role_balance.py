"""Two kinds of rows that shall count for as much as one another."""

from __future__ import annotations

import torch
from torch import Tensor


def equal_shares(share: Tensor, first: Tensor) -> Tensor:
    """Factors with which both kinds of rows weigh half of the whole each; the whole stays.

    Args:
        share: what a row weighs, not negative, shape ``[B]``.
        first: bool, shape ``[B]``: which rows are of the first kind.

    Returns:
        Shape ``[B]``, dimensionless; 1 where one kind weighs nothing.

    Source:
        PretrainZero, arXiv:2512.03442: the batches of two roles, joined with equal weight.

    Examples:
        >>> equal_shares(torch.tensor([0.5, 1.0, 1.5]), torch.tensor([True, False, False]))
        tensor([3.0000, 0.6000, 0.6000])
    """
    ours, theirs = share[first].sum(), share[~first].sum()
    own, other = torch.where(first, ours, theirs), torch.where(first, theirs, ours)
    # Not from a sum of all rows, which rounds in another order: nothing must be exactly 0.
    shared = (own > 0) & (other > 0)
    return torch.where(shared, (own + other) / (2 * own), torch.ones_like(share))
