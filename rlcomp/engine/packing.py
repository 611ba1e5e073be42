"""Sequence packing without padding; equal prefixes are packed once (a trie of the rows)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.engine.attention import (
    Indices,
    Tile,
    Tiling,
    VarlenLayout,
    attend_tiles,
    attend_varlen,
    is_varlen_supported,
    prefix_tree_nodes,
    varlen_layout,
)
from rlcomp.functional.reduction import masked


@dataclass(frozen=True)
class PackedTokens:
    """Packed sequences: ``N`` tokens without padding.

    Attributes:
        ids: shape ``[N]``, int64.
        positions: shape ``[N]``, int64: the column of each token in its row.
        ends: number of tokens of each row; rows are sorted by their tokens.
        shared: number of leading tokens that each row shares with the row before it.
    """

    ids: Tensor
    positions: Tensor
    ends: Indices
    shared: Indices

    @cached_property
    def tiles(self) -> list[Tile]:
        """Return the tiles; they cover the tokens in order."""
        return Tiling(self.ends, self.shared, self.ids.device).tiles

    @cached_property
    def nodes(self) -> Indices:
        """Return the nodes of the tokens' prefix tree."""
        return prefix_tree_nodes(self.ends, self.shared)

    @cached_property
    def varlen(self) -> VarlenLayout:
        """Return the sequences for a varlen attention kernel."""
        return varlen_layout(self.ends, self.shared, self.ids.device)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """Compute attention: by one kernel call where possible, else tile by tile.

        Args:
            q: shape ``[N, heads, D]``.
            k: shape ``[N, kv_heads, D]``.
            v: shape ``[N, kv_heads, D]``.
            scale: factor of the attention logits.

        Returns:
            Shape ``[N, heads * D]``.
        """
        if is_varlen_supported(q):
            return attend_varlen(q, k, v, self.varlen, scale)
        return attend_tiles(q, k, v, self.tiles, scale)


@dataclass(frozen=True)
class ResponseTokens:
    """The response tokens of a batch as one list of length ``R``.

    Attributes:
        packed_indices: int64: index of the packed token that predicts each response token.
        flat_indices: int64: index of each response token in the flattened batch.
        targets: int64: id of each response token.
    """

    packed_indices: Tensor
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
    predicted = batch["response_mask"].clone()
    predicted[:, 0] = False
    rows, columns = predicted.nonzero(as_tuple=True)
    trie = _Trie(ids.cpu().numpy(), _end_columns(predicted))
    flat_indices = rows * ids.shape[1] + columns
    packed_indices = torch.from_numpy(trie.packed_indices).to(ids.device)[rows, columns - 1]
    response = ResponseTokens(
        packed_indices=packed_indices,
        flat_indices=flat_indices,
        targets=ids.flatten()[flat_indices],
    )
    indices = torch.from_numpy(trie.indices).to(ids.device)
    packed = PackedTokens(ids.flatten()[indices], indices % ids.shape[1], trie.ends, trie.shared)
    return packed, response


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


def _end_columns(predicted: Tensor) -> Indices:
    """Return the column of the last predicted token of each row; 0 if it has none."""
    mask = predicted.cpu().numpy()
    last = mask.shape[1] - 1 - mask[:, ::-1].argmax(1)
    return np.where(mask.any(1), last, 0)


def split_by_tokens(batch: TensorDict, budget: int, unit_rows: int = 1) -> list[Tensor]:
    """Split rows into pieces within a budget of packed tokens; common prefixes stay together.

    Args:
        batch: holds ``tokens`` and ``response_mask``, shape ``[B, T]``.
        budget: maximum number of tokens of a piece; a single unit may exceed it.
        unit_rows: number of rows of a unit; units are not split. Divides ``B``.

    Returns:
        Indices of rows, int64; every row occurs once.

    Examples:
        >>> mask = torch.tensor([[False, True], [False, True], [False, True]])
        >>> batch = TensorDict(tokens=torch.tensor([[1, 0], [2, 0], [1, 0]]), response_mask=mask)
        >>> split_by_tokens(batch, 1)
        [tensor([0, 2]), tensor([1])]
    """
    predicted = batch["response_mask"].clone()
    predicted[:, 0] = False
    trie = _Trie(batch["tokens"].cpu().numpy(), _end_columns(predicted))
    place = np.full(
        len(predicted), -1
    )  # in the sorted order; rows without packed tokens come first
    place[trie.order] = np.arange(len(trie.order))
    in_piece = np.zeros(len(trie.indices), dtype=bool)
    pieces, num_tokens = [list[int]()], 0
    for unit in place[::unit_rows].argsort(kind="stable").tolist():
        rows = list(range(unit * unit_rows, (unit + 1) * unit_rows))
        nodes = np.unique(
            np.concatenate([trie.packed_indices[row, : trie.counts[row]] for row in rows])
        )
        new = int((~in_piece[nodes]).sum())
        if pieces[-1] and num_tokens + new > budget:
            pieces.append([])
            in_piece[:], num_tokens, new = False, 0, len(nodes)
        pieces[-1] += rows
        in_piece[nodes] = True
        num_tokens += new
    return [torch.tensor(rows) for rows in pieces]


class _Trie:
    """Trie of rows sorted by their tokens, as one packed list of its nodes.

    In this order, the part of a row that differs from the row before it occurs in no earlier row.
    The list consists of these parts. Rows without packed tokens are left out.

    Args:
        ids: shape ``[B, T]``.
        counts: number of packed tokens of each row, shape ``[B]``.

    Attributes:
        counts: the argument.
        order: the sorted rows.
        indices: index of each listed token in the flattened batch, shape ``[N]``, at least one.
        packed_indices: index in the list of each packed token, shape ``[B, T]``.
        ends: number of packed tokens of the sorted rows.
        shared: number of leading tokens that each shares with the row before it.
    """

    def __init__(self, ids: Indices, counts: Indices) -> None:
        width = ids.shape[1]
        self.counts, self.order = counts, list[int]()
        self.packed_indices = np.zeros_like(ids)
        if not counts.any():
            # One unused token keeps the result connected to the weights.
            self.indices, self.ends, self.shared = (np.array([n]) for n in (0, 1, 0))
            return
        # Big-endian, and 0 after the end: bytes sort like tokens.
        padded = np.where(np.arange(width) < counts[:, None], ids + 1, 0)
        keys = padded.astype(">i8")
        rows = counts.nonzero()[0].tolist()
        self.order = order = sorted(rows, key=lambda row: keys[row].tobytes())
        self.ends = counts[order]
        self.shared = _common_prefix_lengths(padded[order], self.ends)
        new = self.ends - self.shared
        begins = new.cumsum() - new
        # The new part of a row begins in the list at `begins`, and in the row at `shared`.
        self.indices = np.repeat(np.array(order) * width + self.shared - begins, new)
        self.indices += np.arange(len(self.indices))
        before = self.packed_indices[0]
        for row, end, shared, begin in zip(order, self.ends, self.shared, begins, strict=True):
            self.packed_indices[row, :shared] = before[:shared]
            self.packed_indices[row, shared:end] = np.arange(begin, begin + end - shared)
            before = self.packed_indices[row]


def _common_prefix_lengths(rows: Indices, ends: Indices) -> Indices:
    """Count the leading tokens that each row shares with the row before it; 0 for the first."""
    differs = rows[1:] != rows[:-1]
    common = np.where(differs.any(1), differs.argmax(1), ends[1:])
    return np.concatenate([[0], np.minimum(common, np.minimum(ends[1:], ends[:-1]))])
