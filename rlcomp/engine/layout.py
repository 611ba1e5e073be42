"""Layouts of packed rows: variable lengths, and trees of common prefixes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Paths:
    """Packed tokens as sequences, for kernels that take many of different lengths at once.

    The queries of a sequence are its own stretch of the list. Its keys are all tokens of its row:
    those shared with other rows, then that stretch. So each of its tokens sees one more.

    Attributes:
        keys: indices in the list of the sequences' keys, one sequence after the other, ``[K]``,
            int64.
        asks: starts of the stretches, and the end of the last, shape ``[S + 1]``, int32.
        sees: starts of the sequences in ``keys``, and its length, shape ``[S + 1]``, int32.
        longest: the most queries, and the most keys, of a sequence.
    """

    keys: Tensor
    asks: Tensor
    sees: Tensor
    longest: tuple[int, int]


def paths_of(ends: Indices, shared: Indices, device: torch.device) -> Paths:
    """Return the sequences of the rows that have a stretch of their own.

    Args:
        ends: number of tokens of each row, with rows sorted by their tokens.
        shared: number of leading tokens that each row shares with the row before it.
        device: where the tensors go.

    Examples:
        >>> paths_of(np.array([3, 3]), np.array([0, 2]), torch.device("cpu")).keys
        tensor([0, 1, 2, 0, 1, 3])
    """
    keys, path = list[Indices](), np.zeros(0, dtype=np.int64)
    begin = 0
    for end, common in zip(ends.tolist(), shared.tolist(), strict=True):
        path = np.concatenate([path[:common], np.arange(begin, begin + end - common)])
        begin += end - common
        if end > common:
            keys.append(path)
    queries = (ends - shared)[ends > shared]
    key_counts = np.array([len(each) for each in keys])
    starts = (np.concatenate([[0], counts.cumsum()]) for counts in (queries, key_counts))
    asks, sees = (torch.from_numpy(each).int().to(device) for each in starts)
    longest = int(queries.max()), int(key_counts.max())
    return Paths(torch.from_numpy(np.concatenate(keys)).to(device), asks, sees, longest)


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
