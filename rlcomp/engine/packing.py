"""Sequence packing without padding; equal prefixes are read once (a trie of the rows)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.engine.layout import Indices, VarlenLayout, prefix_tree_nodes, varlen_layout
from rlcomp.functional.reduction import masked

# Tokens whose attention is computed together. Smaller tiles waste fewer masked pairs, larger ones
# take fewer calls; on a CPU 128 was the cheapest per token.
_TILE = 128
# From this mask size on, 16 MB, attention without a mask is better at any cost.
_LARGE_MASK = 2**22


@dataclass(frozen=True)
class Tile:
    """Tile: a range of packed tokens whose attention is computed together.

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


@dataclass(frozen=True)
class PackedTokens:
    """Packed sequences: ``N`` tokens without padding.

    Attributes:
        ids: shape ``[N]``, int64.
        positions: shape ``[N]``, int64: the column of each token in its row.
        ends: number of tokens of each row, with rows sorted by their tokens.
        shared: number of leading tokens that each row shares with the row before it.
    """

    ids: Tensor
    positions: Tensor
    ends: Indices
    shared: Indices

    @cached_property
    def tiles(self) -> list[Tile]:
        """Return the tiles; they cover the tokens in order."""
        return _Tiles(self.ends, self.shared, self.ids.device).tiles

    @cached_property
    def nodes(self) -> Indices:
        """Return the nodes of the tokens' prefix tree."""
        return prefix_tree_nodes(self.ends, self.shared)

    @cached_property
    def varlen(self) -> VarlenLayout:
        """Return the sequences for a varlen attention kernel."""
        return varlen_layout(self.ends, self.shared, self.ids.device)


@dataclass(frozen=True)
class ResponseTokens:
    """The response tokens of a batch as one list of length ``R``.

    Attributes:
        states: shape ``[R]``, int64: index of the packed token that predicts each response token.
        flat_indices: shape ``[R]``, int64: index of each response token in the flattened batch.
        targets: shape ``[R]``, int64: id of each response token.
    """

    states: Tensor
    flat_indices: Tensor
    targets: Tensor


def pack(batch: TensorDict) -> tuple[PackedTokens, ResponseTokens]:
    """Pack the tokens needed to predict the response tokens of a batch.

    A row is packed up to the token before its last response token. A row without response tokens is
    not packed. A prefix that rows share, such as a prompt or the part before a fork, is packed
    once. A response token in column 0 has no predecessor and is left out.

    Args:
        batch: holds ``tokens``, ``attention_mask`` and ``response_mask``, shape ``[B, T]``.

    Returns:
        The packed tokens, at least one; and the response tokens that they predict.
    """
    ids = masked(batch["tokens"], batch["attention_mask"])
    wanted = batch["response_mask"].clone()
    wanted[:, 0] = False
    rows, columns = wanted.nonzero(as_tuple=True)
    trie = _Trie(ids.cpu().numpy(), _end_columns(wanted))
    flat_indices = rows * ids.shape[1] + columns
    states = torch.from_numpy(trie.states).to(ids.device)[rows, columns - 1]
    listed = ResponseTokens(
        states=states, flat_indices=flat_indices, targets=ids.flatten()[flat_indices]
    )
    taken = torch.from_numpy(trie.taken).to(ids.device)
    packed = PackedTokens(ids.flatten()[taken], taken % ids.shape[1], trie.ends, trie.shared)
    return packed, listed


def pack_prompts(prompts: list[list[int]], device: torch.device) -> PackedTokens:
    """Pack prompts for prefill, each as a separate sequence.

    Args:
        prompts: non-empty lists of ids; equal ones are not merged.
        device: device of the tensors.
    """
    lengths = np.array([len(prompt) for prompt in prompts])
    return PackedTokens(
        torch.tensor([token for prompt in prompts for token in prompt], device=device),
        torch.cat([torch.arange(length, device=device) for length in lengths.tolist()]),
        lengths,
        np.zeros_like(lengths),
    )


def _end_columns(wanted: Tensor) -> Indices:
    """Return how many tokens of each row are read: up to its last response token, 0 without one."""
    mask = wanted.cpu().numpy()
    last = mask.shape[1] - 1 - mask[:, ::-1].argmax(1)
    return np.where(mask.any(1), last, 0)


def split_by_tokens(batch: TensorDict, budget: int, unit_rows: int = 1) -> list[Tensor]:
    """Split rows within a packed token budget; rows with a common prefix are adjacent.

    Args:
        batch: holds ``tokens`` and ``response_mask``, shape ``[B, T]``.
        budget: the most tokens of a piece; a single unit may exceed it.
        unit_rows: rows that stay together; divides ``B``.

    Returns:
        Indices of rows, int64; every row occurs once.

    Examples:
        >>> mask = torch.tensor([[False, True], [False, True], [False, True]])
        >>> batch = TensorDict(tokens=torch.tensor([[1, 0], [2, 0], [1, 0]]), response_mask=mask)
        >>> split_by_tokens(batch, 1)
        [tensor([0, 2]), tensor([1])]
    """
    wanted = batch["response_mask"].clone()
    wanted[:, 0] = False
    trie = _Trie(batch["tokens"].cpu().numpy(), _end_columns(wanted))
    rank = np.full(len(wanted), -1)  # rows that are not read cost nothing
    rank[trie.order] = np.arange(len(trie.order))
    read = np.zeros(len(trie.taken), dtype=bool)
    pieces, num_tokens = [list[int]()], 0
    for unit in rank[::unit_rows].argsort(kind="stable").tolist():
        rows = list(range(unit * unit_rows, (unit + 1) * unit_rows))
        nodes = np.unique(np.concatenate([trie.states[row, : trie.counts[row]] for row in rows]))
        new = int((~read[nodes]).sum())
        if pieces[-1] and num_tokens + new > budget:
            pieces.append([])
            read[:], num_tokens, new = False, 0, len(nodes)
        pieces[-1] += rows
        read[nodes] = True
        num_tokens += new
    return [torch.tensor(rows) for rows in pieces]


class _Trie:
    """The distinct prefixes of rows, in the order of their tokens.

    In this order, the part of a row that differs from the row before it is new: no earlier row has
    it. The list consists of these stretches.

    Args:
        ids: shape ``[B, T]``.
        counts: number of tokens read of each row, shape ``[B]``.

    Attributes:
        counts: the argument.
        order: of the rows that are read.
        taken: indices of the list's tokens in the flattened batch, shape ``[N]``, at least one.
        states: index in the list of each token that is read, shape ``[B, T]``.
        ends: number of tokens of the rows that are read, in order.
        shared: number of leading tokens that each shares with the row before it.
    """

    def __init__(self, ids: Indices, counts: Indices) -> None:
        width = ids.shape[1]
        self.counts, self.order = counts, list[int]()
        self.states = np.zeros_like(ids)
        if not counts.any():
            # One unused token keeps the result connected to the weights.
            self.taken, self.ends, self.shared = (np.array([n]) for n in (0, 1, 0))
            return
        # Big-endian, and 0 behind the end: bytes sort like tokens.
        read = np.where(np.arange(width) < counts[:, None], ids + 1, 0)
        keys = read.astype(">i8")
        some = counts.nonzero()[0].tolist()
        self.order = order = sorted(some, key=lambda row: keys[row].tobytes())
        self.ends = counts[order]
        self.shared = _common_prefix_lengths(read[order], self.ends)
        new = self.ends - self.shared
        begins = new.cumsum() - new
        self.taken = np.repeat(np.array(order) * width + self.shared - begins, new)
        self.taken += np.arange(len(self.taken))
        before = self.states[0]
        for row, end, shared, begin in zip(order, self.ends, self.shared, begins, strict=True):
            self.states[row, :shared] = before[:shared]
            self.states[row, shared:end] = np.arange(begin, begin + end - shared)
            before = self.states[row]


def _common_prefix_lengths(rows: Indices, ends: Indices) -> Indices:
    """Count the leading tokens that each row shares with the one before it; 0 for the first."""
    unlike = rows[1:] != rows[:-1]
    common = np.where(unlike.any(1), unlike.argmax(1), ends[1:])
    return np.concatenate([[0], np.minimum(common, np.minimum(ends[1:], ends[:-1]))])


class _Tiles:
    """Tiles of a trie: small subtrees share one, a large subtree is cut where its rows part.

    Args:
        ends: number of tokens of each row, with rows sorted by their tokens.
        shared: number of leading tokens that each row shares with the row before it.
        device: of the masks.

    Attributes:
        tiles: the tiles; they cover the list in order.
    """

    def __init__(self, ends: Indices, shared: Indices, device: torch.device) -> None:
        self.ends, self.shared, self.device = ends, shared, device
        # Each row's stretch of the list begins here.
        self.begins = np.concatenate([[0], (ends - shared).cumsum()])
        self.tiles: list[Tile] = []
        self._cut(0, len(ends), 0, ())

    def _cut(self, low: int, high: int, depth: int, prefix: tuple[int, ...]) -> None:
        """Add the tiles of rows that are alike up to a depth, behind the tiles of their prefix."""
        inner = low + 1 + (self.shared[low + 1 : high] == depth).nonzero()[0]
        start = low
        for part, stop in itertools.pairwise([low, *inner.tolist(), high]):
            size = int(self.begins[stop]) - self._at(part, depth)
            if start < part and self.begins[stop] - self._at(start, depth) > _TILE:
                self._add(start, part, depth, prefix)
                start = part
            if size > _TILE and not self._single(part, stop):
                # The tokens that all of its rows share are a tile of their own.
                fork = int(self.shared[part + 1 : stop].min())
                self._tile(self._at(part, depth), self._at(part, fork), prefix, None)
                self._cut(part, stop, fork, (*prefix, len(self.tiles) - 1))
                start = stop
        if start < high:
            self._add(start, high, depth, prefix)

    def _at(self, row: int, depth: int) -> int:
        """Return the index in the list of a row's token at a depth."""
        return int(self.begins[row] + depth - self.shared[row])

    def _single(self, low: int, high: int) -> bool:
        """Return whether rows are one sequence and its beginnings."""
        return bool((self.shared[low + 1 : high] == self.ends[low : high - 1]).all())

    def _add(self, low: int, high: int, depth: int, prefix: tuple[int, ...]) -> None:
        """Add a tile of whole subtrees, unless it has no token."""
        start, stop = self._at(low, depth), int(self.begins[high])
        if start < stop:
            plain = self._single(low, high)
            self._tile(start, stop, prefix, None if plain else self._visible(low, high, depth))

    def _tile(
        self, start: int, stop: int, prefix: tuple[int, ...], visible: Indices | None
    ) -> None:
        """Add a tile; without ``visible`` every token sees all before it."""
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
        # The number of leading tokens that each row shares with each row before it.
        common = np.zeros((count, count), dtype=np.int64)
        for number in range(1, count):
            common[number, :number] = np.minimum(shared[number], common[number - 1, :number])
            common[number, number - 1] = shared[number]
        first = np.maximum(shared, depth)
        new = self.ends[low:high] - first
        row = np.repeat(np.arange(count), new)
        column = np.repeat(first - (new.cumsum() - new), new) + np.arange(new.sum())
        visible: Indices = (row[:, None] == row) | (common[row[:, None], row] > column)
        visible &= np.tri(len(row), dtype=bool)
        return visible


def _needs_no_mask(before: int, size: int) -> bool:
    """Return whether a prefix and the sequence behind it are one sequence, without a mask.

    Then the queries of the prefix are computed once more, in vain. But a mask is as large as the
    tile times all the tokens it sees, and with a mask the kernel does not skip tokens ahead.
    """
    return size >= before or size * (before + size) > _LARGE_MASK
