"""Packed rows as a tree: stretches of the list, and the range of tokens that see each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def nodes_of(ends: Indices, shared: Indices) -> Indices:
    """Return the nodes of the tree of some rows: stretches of the list that end where rows part.

    A token of a node sees the tokens before it in the node, and all ancestors of the node. The
    descendants of a node follow it in the list, so tokens from its end to its reach see all of it.

    Args:
        ends: number of tokens of each row, with rows sorted by their tokens.
        shared: number of leading tokens that each row shares with the row before it.

    Returns:
        Start, stop and reach of each node, shape ``[n, 3]``; a node comes after its descendants.

    Examples:
        >>> nodes_of(np.array([3, 4]), np.array([0, 2])).tolist()  # a prompt of 2, and 1 + 2 more
        [[2, 3, 3], [3, 5, 5], [0, 2, 5]]
    """
    nodes: list[tuple[int, int, int]] = []
    path: list[tuple[int, int, int]] = []  # open stretches: start, stop, depth of the start
    begin = 0
    for end, common in zip(ends.tolist(), shared.tolist(), strict=True):
        while path and path[-1][2] + path[-1][1] - path[-1][0] > common:
            start, stop, depth = path.pop()
            fork = start + max(common - depth, 0)
            nodes.append((fork, stop, begin))
            if fork > start:
                path.append((start, fork, depth))
        if end > common:
            path.append((begin, begin + end - common, common))
        begin += end - common
    nodes += [(start, stop, begin) for start, stop, _ in reversed(path)]
    return np.array(nodes, dtype=np.int64)
