"""Equal total weight for two roles."""

from __future__ import annotations

import torch
from torch import Tensor


def equal_shares(share: Tensor, first: Tensor) -> Tensor:
    """Compute per-row factors that give two roles equal total weight.

    ``c_i = (W_a + W_b) / (2 W_role(i))`` with ``W`` the summed weight of a role; the total is
    unchanged.

    Args:
        share: weight of each row, not negative, shape ``[B]``.
        first: True for rows of the first role, bool, shape ``[B]``.

    Returns:
        Shape ``[B]``, dimensionless; 1 where one role has weight 0.

    Source:
        PretrainZero, arXiv:2512.03442: the batches of two roles join with equal weight.

    Examples:
        >>> equal_shares(torch.tensor([0.5, 1.0, 1.5]), torch.tensor([True, False, False]))
        tensor([3.0000, 0.6000, 0.6000])
    """
    ours, theirs = share[first].sum(), share[~first].sum()
    own, other = torch.where(first, ours, theirs), torch.where(first, theirs, ours)
    # Compare the two sums with 0; a difference from the sum of all rows has rounding errors.
    shared = (own > 0) & (other > 0)
    return torch.where(shared, (own + other) / (2 * own), torch.ones_like(share))
