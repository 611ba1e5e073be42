"""Trees of episodes: the root of each row."""

from __future__ import annotations

import torch
from torch import Tensor


def roots(trajectory_id: Tensor, branch_parent: Tensor) -> Tensor:
    """Return for each row the episode that its tree began with.

    Args:
        trajectory_id: shape ``[B]``, int64.
        branch_parent: the parent episode of its branch, int64, shape ``[B]``; -1: none.

    Returns:
        Shape ``[B]``, int64. A missing parent (dropped by a filter) counts as a root.

    Examples:
        >>> roots(torch.tensor([4, 5, 6, 7]), torch.tensor([-1, 4, 5, -1]))
        tensor([4, 4, 4, 7])
    """
    ids, parents = trajectory_id.tolist(), branch_parent.tolist()
    parent_of = dict(zip(ids, parents, strict=True))

    def root(row: int) -> int:
        while parent_of.get(row, -1) >= 0:
            row = parent_of[row]
        return row

    return torch.tensor([root(row) for row in ids], device=trajectory_id.device)
