"""Attention of packed tokens, and its layouts: varlen sequences, prefix trees, masked tiles.

Each token attends to itself and to earlier tokens of its row. In all layouts, rows are sorted by
their tokens; ``ends`` is the number of tokens of each row, and ``shared`` the number of leading
tokens that it shares with the row before it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

Indices = NDArray[np.int64]
# Later releases of torch need the argument enable_gqa if heads share keys.
_HAS_GQA = "enable_gqa" in signature(varlen_attn).parameters
_GROUPED: dict[str, Any] = {"enable_gqa": True} if _HAS_GQA else {}
_HALF = (torch.bfloat16, torch.float16)
# The kernel needs a head size that is a multiple of this.
_FEATURES = 8
# Tokens of a tile. Smaller tiles waste fewer masked pairs, larger ones take fewer calls; on a CPU
# 128 was the cheapest per token.
_TILE = 128
# Above this number of entries of a mask, 16 MB in float32, attention always goes without a mask.
_LARGE_MASK = 2**22


@dataclass(frozen=True)
class VarlenLayout:
    """Packed tokens as sequences of varying length, for a varlen attention kernel.

    The queries of a sequence are the tokens of a row's suffix, behind the prefix that it shares.
    Its keys are the tokens of prefix and suffix. Attention is causal, aligned at the end.

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


@dataclass(frozen=True)
class Tile:
    """A range of packed tokens whose attention is computed together.

    Attributes:
        rows: range of the tile's tokens in the packed list.
        prefix: indices of the tiles to which all tokens of this tile attend in full, in order.
        mask: 0 where a token (first dimension) attends to another one (second dimension: the
            tokens of the prefix, then of the tile), ``-inf`` elsewhere. None: the prefix and the
            tile are one sequence with causal attention.
    """

    rows: slice
    prefix: tuple[int, ...]
    mask: Tensor | None


class Tiling:
    """Tiles of a prefix tree: small subtrees share a tile, a large subtree is split at its fork.

    Args:
        ends: number of tokens of each row.
        shared: number of leading tokens that each row shares with the row before it.
        device: device of the masks.

    Attributes:
        tiles: the tiles; they cover the packed list in order.
    """

    def __init__(self, ends: Indices, shared: Indices, device: torch.device) -> None:
        self.ends, self.shared, self.device = ends, shared, device
        # Start of each row's suffix in the list.
        self.begins = np.concatenate([[0], (ends - shared).cumsum()])
        self.tiles: list[Tile] = []
        self._cut(0, len(ends), 0, ())

    def _cut(self, low: int, high: int, depth: int, prefix: tuple[int, ...]) -> None:
        """Add the tiles of rows ``low`` to ``high - 1``, whose first ``depth`` tokens are equal.

        ``prefix`` are the indices of the tiles of these equal tokens.
        """
        # The rows at which a subtree begins. The subtrees from row ``start`` to the current one
        # have no tile yet: they share one if it holds them.
        inner = low + 1 + (self.shared[low + 1 : high] == depth).nonzero()[0]
        start = low
        for part, stop in itertools.pairwise([low, *inner.tolist(), high]):
            size = int(self.begins[stop]) - self._at(part, depth)
            if self.begins[stop] - self._at(start, depth) > _TILE:
                self._add(start, part, depth, prefix)
                start = part
            if size > _TILE and not self._is_one_sequence(part, stop):
                # The tokens that all of these rows share are one tile.
                fork = int(self.shared[part + 1 : stop].min())
                self._tile(self._at(part, depth), self._at(part, fork), prefix, None)
                self._cut(part, stop, fork, (*prefix, len(self.tiles) - 1))
                start = stop
        if start < high:
            self._add(start, high, depth, prefix)

    def _at(self, row: int, depth: int) -> int:
        """Return the index in the list of a row's token at a depth."""
        return int(self.begins[row] + depth - self.shared[row])

    def _is_one_sequence(self, low: int, high: int) -> bool:
        """Return whether each row is a prefix of the next row."""
        return bool((self.shared[low + 1 : high] == self.ends[low : high - 1]).all())

    def _add(self, low: int, high: int, depth: int, prefix: tuple[int, ...]) -> None:
        """Add a tile of whole subtrees, unless it is empty."""
        start, stop = self._at(low, depth), int(self.begins[high])
        if start < stop:
            visible = None if self._is_one_sequence(low, high) else self._visible(low, high, depth)
            self._tile(start, stop, prefix, visible)

    def _tile(
        self, start: int, stop: int, prefix: tuple[int, ...], visible: Indices | None
    ) -> None:
        """Add a tile; without ``visible`` every token attends to all before it."""
        before = sum(self.tiles[n].rows.stop - self.tiles[n].rows.start for n in prefix)
        size = stop - start
        mask = None
        if visible is not None or not _needs_no_mask(before, size):
            visible = np.tri(size, dtype=bool) if visible is None else visible
            bias = np.where(visible, np.float32(0), np.float32(-np.inf))
            mask = torch.from_numpy(np.pad(bias, ((0, 0), (before, 0)))).to(self.device)
        self.tiles.append(Tile(slice(start, stop), prefix, mask))

    def _visible(self, low: int, high: int, depth: int) -> Indices:
        """Return for each token of some rows the tokens (second dimension) it may attend to."""
        shared, count = self.shared[low:high], high - low
        # Number of leading tokens that each row shares with each row before it.
        common = np.zeros((count, count), dtype=np.int64)
        for number in range(1, count):
            common[number, :number] = np.minimum(shared[number], common[number - 1, :number])
            common[number, number - 1] = shared[number]
        first = np.maximum(shared, depth)
        new = self.ends[low:high] - first
        # The row and the depth of each token.
        row = np.repeat(np.arange(count), new)
        column = np.repeat(first - (new.cumsum() - new), new) + np.arange(new.sum())
        visible: Indices = (row[:, None] == row) | (common[row[:, None], row] > column)
        visible &= np.tri(len(row), dtype=bool)
        return visible


def _needs_no_mask(before: int, size: int) -> bool:
    """Return whether causal attention over prefix and tile is cheaper than a mask.

    Causal attention computes the queries of the prefix again. But a mask is as large as the tile
    times its keys, and with a mask the kernel does not skip later tokens.
    """
    return size >= before or size * (before + size) > _LARGE_MASK


def is_varlen_supported(q: Tensor) -> bool:
    """Return whether the varlen kernel supports queries: on a GPU, in half precision."""
    return q.is_cuda and q.dtype in _HALF and q.shape[-1] % _FEATURES == 0


def attend_varlen(q: Tensor, k: Tensor, v: Tensor, layout: VarlenLayout, scale: float) -> Tensor:
    """Compute attention of packed tokens by one flash kernel.

    Keys and values of a shared prefix are copied for each of its rows. If heads share keys, the
    copies are small compared to the residual stream. Gradients of the copies are summed in float32.

    Takes the arguments of :func:`attend_tiles`, with a ``layout`` in place of ``tiles``.

    Source:
        Dao 2023, "FlashAttention-2", arXiv:2307.08691, section 3.
    """
    keys, values = (each.float().index_select(0, layout.keys).to(q.dtype) for each in (k, v))
    attended = varlen_attn(
        q,
        keys,
        values,
        layout.query_starts,
        layout.key_starts,
        *layout.longest,
        scale=scale,
        window_size=(-1, 0),
        **_GROUPED,
    )
    assert isinstance(attended, Tensor)
    return attended.flatten(1)


def attend_tiles(q: Tensor, k: Tensor, v: Tensor, tiles: list[Tile], scale: float) -> Tensor:
    """Compute attention of packed tokens, tile by tile.

    Args:
        q: shape ``[N, heads, D]``.
        k: shape ``[N, kv_heads, D]``.
        v: shape ``[N, kv_heads, D]``.
        tiles: tiles of the tokens, with their masks.
        scale: factor of the attention logits.

    Returns:
        Shape ``[N, heads * D]``.
    """
    # Not slices: the gradient of every slice would be as large as the whole tensor.
    sizes = [tile.rows.stop - tile.rows.start for tile in tiles]
    heads = (each.transpose(0, 1)[None] for each in (q, k, v))
    queries, keys, values = (torch.split(each, sizes, 2) for each in heads)
    outputs = []
    for index, tile in enumerate(tiles):
        # On a CPU a mask of another dtype than the queries gives wrong numbers without an error.
        mask = None if tile.mask is None else tile.mask.to(q.dtype)
        query, key, value = queries[index], keys[index], values[index]
        if tile.prefix:
            if mask is None:
                query = torch.cat([*(queries[number] for number in tile.prefix), query], 2)
            key = torch.cat([*(keys[number] for number in tile.prefix), key], 2)
            value = torch.cat([*(values[number] for number in tile.prefix), value], 2)
        attended = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        outputs.append(attended[:, :, -sizes[index] :])
    return torch.cat(outputs, 2)[0].transpose(0, 1).flatten(1)
