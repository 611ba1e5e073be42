"""KV cache of a session: rows of different lengths, read and sampled in turn."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.engine.cache import Cache, Memory, select_rows


class RaggedCache(Cache):
    """KV cache whose rows have lengths of their own.

    Between turns the tokens of each row are in its first columns; columns from there to the end of
    the longest row are masked. Within a turn new tokens go into the same column of every row,
    behind the longest, and are moved up when the turn ends. Prompts are shared as in
    :class:`rlcomp.engine.cache.Cache`.

    Args:
        prompts: keys and values of the prompts, by layer; shape ``[P, kv_heads, L, D]`` each; all
            prompts end in the last of ``L`` columns.
        lengths: number of tokens of each prompt; the maximum is ``L``.
        owners: for each row, the index of its prompt.
        limit: maximum number of tokens of a row after its prompt.

    Attributes:
        columns: number of columns of each row when the turn began, int64, shape ``[R]``.
    """

    def __init__(
        self, prompts: list[Memory], lengths: Sequence[int], owners: Sequence[int], limit: int
    ) -> None:
        device = prompts[0][0].device
        self.columns = torch.zeros(len(owners), dtype=torch.int64, device=device)
        super().__init__(prompts, lengths, owners, limit)
        biases = len(owners) * prompts[0][0].shape[1]
        self._bias_of_columns = self._bias_of_columns.expand(biases, -1, -1).contiguous()

    @property
    def _bias(self) -> Tensor:
        """Return the bias of the scores, by row and kv head: ``[R, kv_heads, C]``."""
        heads = len(self._bias_of_columns) // len(self.columns)  # no -1: there may be no column yet
        return self._bias_of_columns.view(len(self.columns), heads, self._bias_of_columns.shape[-1])

    def branch(self, rows: Sequence[int]) -> RaggedCache:
        """Return a cache of some rows, in this order; this cache is not changed."""
        other = copy.copy(self)
        other._own, other._prompts = [*self._own], [*self._prompts]
        other._lengths, other._bias_of_columns = [*self._lengths], self._bias_of_columns.clone()
        other.keep(rows)
        return other

    @property
    def _owner(self) -> Tensor:
        return torch.tensor(self._owners, device=self.columns.device)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep some rows, in this order, and their prompts; a row that occurs twice is copied."""
        self.columns = self.columns[torch.tensor(rows, device=self.columns.device)]
        super().keep(rows)
        if len(self._bias_of_columns) < len(rows):  # there was one row of one head
            self._bias_of_columns = self._bias_of_columns.repeat(len(rows), 1, 1)

    def _copy(self, owners: Sequence[int]) -> None:
        before = self.length
        super()._copy(owners)
        self.columns = self.columns + (self.length - before)

    def begin_read(self, rows: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Make room for more tokens of each row, to be read at once.

        Args:
            rows: the row of each token, int64, shape ``[N]``, ascending.
            counts: number of new tokens of each row.

        Returns:
            The index of each token among those of its row, shape ``[N]``; the bias of the scores of
            the rows' own memory, shape ``[R, M, C]``, for the ``M`` tokens of the longest row; and
            the column of each token, shape ``[N]``.
        """
        device = self.columns.device
        size = torch.tensor(counts, device=device)
        number = torch.cat([torch.arange(count, device=device) for count in counts])
        columns = self.columns[rows] + number
        self.length = int((self.columns + size).max())
        self.reserve(self.length)
        before = self.columns
        bias = self._bias[:, :1, : self._width].clone()
        self._bias[rows, :, columns] = 0.0
        self.columns = self.columns + size
        place = torch.arange(self._width, device=device)
        offsets = torch.arange(max(counts), device=device)
        ahead = (place >= before[:, None, None]) & (
            place <= before[:, None, None] + offsets[None, :, None]
        )
        return number, torch.where(ahead, torch.zeros_like(bias), bias), columns

    def write(self, layer: int, rows: Tensor, columns: Tensor, k: Tensor, v: Tensor) -> None:
        """Write keys and values ``[N, kv_heads, D]`` of tokens at their rows and columns."""
        keys, values = self._own[layer]
        keys[rows, :, columns] = k
        values[rows, :, columns] = v

    def attend_some(self, layer: int, q: Tensor, bias: Tensor, scale: float) -> Tensor:
        """Compute attention of several tokens of every row.

        Args:
            layer: index of the layer.
            q: shape ``[R, M, heads, D]``.
            bias: shape ``[R, M, C]``.
            scale: factor of the attention logits.

        Returns:
            Shape ``[R, M, heads * D]``.
        """
        keys, values = self._keys_and_values(layer)
        prompts = keys.shape[2] - bias.shape[-1]
        if prompts:
            heads = keys.shape[1]
            padding = self._padding.expand(len(self._lengths) * heads, 1, prompts)[::heads]
            prompt_bias = padding[self._owner].expand(-1, bias.shape[1], -1)
            bias = torch.cat([prompt_bias, bias], -1)
        attended = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            keys,
            values,
            attn_mask=bias[:, None],
            scale=scale,
            enable_gqa=q.shape[2] != keys.shape[1],
        )
        return attended.transpose(1, 2).flatten(2)

    def _keys_and_values(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of each row, its prompt's first: ``[R, kv_heads, n, D]``."""
        own_keys, own_values = (each[:, :, : self._width] for each in self._own[layer])
        if not self._prompts:
            return own_keys, own_values
        keys, values = select_rows(self._prompts[layer], self._owner)
        return torch.cat([keys, own_keys], 2), torch.cat([values, own_values], 2)

    def begin_turn(self) -> None:
        """Let new tokens of all rows go into the column behind the longest row."""
        self.length = int(self.columns.max())

    def take_back(self, other: RaggedCache, rows: Sequence[int], steps: int) -> None:
        """Take over the last tokens of rows that a branch has sampled.

        Args:
            other: the branch.
            rows: for each of the branch's first rows, its index here.
            steps: number of tokens that each of them has more than here.
        """
        own_rows = torch.tensor(rows, device=self.columns.device)
        start, count, end = self.length, len(rows), other.length
        self.length += steps
        self.reserve(self.length)
        new = slice(start, self.length)
        for memory, others in zip(self._own, other._own, strict=True):
            for target, source in zip(memory, others, strict=True):
                target[own_rows, :, new] = source[:count, :, end - steps : end]

    def end_turn(self, counts: Tensor) -> None:
        """Keep the first tokens of each row of this turn, and move them up behind its earlier ones.

        Args:
            counts: number of tokens to keep, int64, shape ``[R]``.
        """
        start = int(self.columns.max())
        short = (self.columns < start).nonzero()[:, 0]
        most = int(counts.max())
        if len(short) and most:
            self._move_up(short, start, most)
        self.columns = self.columns + counts
        place = torch.arange(self._bias_of_columns.shape[-1], device=counts.device)
        bias = self._bias
        before = (self.columns - counts)[:, None]
        inside = (place >= before) & (place < self.columns[:, None])
        bias.masked_fill_(inside[:, None], 0.0)
        bias.masked_fill_((place >= self.columns[:, None])[:, None], -torch.inf)
        self.length = int(self.columns.max())

    def _move_up(self, rows: Tensor, start: int, count: int) -> None:
        places = self.columns[rows, None] + torch.arange(count, device=rows.device)
        row = rows[:, None]
        for memory in self._own:
            for each in memory:
                # Indexed dimensions come first: [rows, count, kv_heads, D].
                each[row, :, places] = each[rows, :, start : start + count].transpose(1, 2)
