"""Layouts of packed rows for attention: sequences of varying length, and prefix trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class VarlenLayout:
    """Packed tokens as sequences of varying length, for a varlen attention kernel.

    A row shares a prefix with other rows; its remaining tokens, the suffix, are adjacent in the
    packed list. The queries of a sequence are the tokens of a row's suffix. Its keys are the tokens
    of the prefix and the suffix. Attention is causal, aligned at the end.

    Attributes:
        keys: indices of the sequences' keys in the packed list, one sequence after the other,
            shape ``[K]``, int64.
        query_starts: start of each suffix in the packed list, and the end of the last one, shape
            ``[S + 1]``, int32.
        key_starts: start of each sequence in ``keys``, and ``K``, shape ``[S + 1]``, int32.
        longest: maximum number of queries and of keys of a sequence.
    """

    keys: Tensor
    query_starts: Tensor
    key_starts: Tensor
    longest: tuple[int, int]


def varlen_layout(ends: Indices, shared: Indices, device: torch.device) -> VarlenLayout:
    """Return the sequences of the rows that have a suffix.

    Args:
        ends: number of tokens of each row, with rows sorted by their tokens.
        shared: number of leading tokens that each row shares with the row before it.
        device: device of the tensors.

    Examples:
        >>> varlen_layout(np.array([3, 3]), np.array([0, 2]), torch.device("cpu")).keys
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
    query_starts, key_starts = (torch.from_numpy(each).int().to(device) for each in starts)
    longest = int(queries.max()), int(key_counts.max())
    return VarlenLayout(
        torch.from_numpy(np.concatenate(keys)).to(device), query_starts, key_starts, longest
    )


def prefix_tree_nodes(ends: Indices, shared: Indices) -> Indices:
    """Return the nodes of the prefix tree of some rows.

    A node is a range of the packed list whose tokens belong to the same rows. A token attends to
    the earlier tokens of its node, and to all ancestors of the node. The descendants of a node
    follow it in the list up to the node's reach, and attend to all of its tokens.

    Args:
        ends: number of tokens of each row, with rows sorted by their tokens.
        shared: number of leading tokens that each row shares with the row before it.

    Returns:
        Start, stop and reach of each node, shape ``[n, 3]``; a node comes after its descendants.

    Examples:
        >>> prefix_tree_nodes(np.array([3, 4]), np.array([0, 2])).tolist()
        [[2, 3, 3], [3, 5, 5], [0, 2, 5]]
    """
    nodes: list[tuple[int, int, int]] = []
    path: list[tuple[int, int, int]] = []  # open nodes: start, stop, depth of the start
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
