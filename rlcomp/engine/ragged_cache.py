"""KV cache of a session: rows of different lengths, which grow turn by turn."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.engine.cache import Cache, Memory, select_rows


class RaggedCache(Cache):
    """KV cache whose rows have different lengths.

    Between turns the tokens of a row are in its first columns; the remaining columns are masked.
    Within a turn, new tokens of all rows are in the same column, behind the longest row. At the end
    of the turn each row's new tokens move behind its earlier tokens.

    Takes the arguments of :class:`rlcomp.engine.cache.Cache`.

    Attributes:
        columns: number of columns of each row at the start of the turn, int64, shape ``[R]``.
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
        heads = len(self._bias_of_columns) // len(self.columns)  # not -1: there may be no column
        return self._bias_of_columns.view(len(self.columns), heads, self._bias_of_columns.shape[-1])

    def branch(self, rows: Sequence[int]) -> RaggedCache:
        """Return a cache of some rows, in this order; does not change this cache."""
        other = copy.copy(self)
        other._own, other._prompts = [*self._own], [*self._prompts]
        other._lengths, other._bias_of_columns = [*self._lengths], self._bias_of_columns.clone()
        other.keep(rows)
        return other

    @property
    def _owner(self) -> Tensor:
        return torch.tensor(self._owners, device=self.columns.device)

    def keep(self, rows: Sequence[int]) -> None:
        """Reduce the cache to some rows, in this order; a row that occurs twice is copied."""
        self.columns = self.columns[torch.tensor(rows, device=self.columns.device)]
        super().keep(rows)
        if len(self._bias_of_columns) < len(rows):  # there was one row of one head
            self._bias_of_columns = self._bias_of_columns.repeat(len(rows), 1, 1)

    def _copy_prompts(self, owners: Sequence[int]) -> None:
        before = self.length
        super()._copy_prompts(owners)
        self.columns = self.columns + (self.length - before)

    def begin_read(self, rows: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Allocate columns for several new tokens of each row.

        Args:
            rows: the row of each token, int64, shape ``[N]``, ascending.
            counts: number of new tokens of each row.

        Returns:
            The index of each token within its row's new tokens, shape ``[N]``; the bias of the
            scores, shape ``[R, M, C]``, for at most ``M`` new tokens of a row; and the column of
            each token, shape ``[N]``.
        """
        device = self.columns.device
        size = torch.tensor(counts, device=device)
        indices = torch.cat([torch.arange(count, device=device) for count in counts])
        columns = self.columns[rows] + indices
        self.length = int((self.columns + size).max())
        self.reserve(self.length)
        before = self.columns
        # The bias of earlier tokens; it is the same for all heads of a row.
        bias = self._bias[:, :1, : self._width].clone()
        self._bias[rows, :, columns] = 0.0
        self.columns = self.columns + size
        column = torch.arange(self._width, device=device)
        offsets = torch.arange(max(counts), device=device)
        is_visible = (column >= before[:, None, None]) & (
            column <= before[:, None, None] + offsets[None, :, None]
        )
        return indices, torch.where(is_visible, torch.zeros_like(bias), bias), columns

    def write(self, layer: int, rows: Tensor, columns: Tensor, k: Tensor, v: Tensor) -> None:
        """Write keys and values ``[N, kv_heads, D]`` of tokens at their rows and columns."""
        keys, values = self._own[layer]
        keys[rows, :, columns] = k
        values[rows, :, columns] = v

    def attend_padded(self, layer: int, q: Tensor, bias: Tensor, scale: float) -> Tensor:
        """Compute attention of several tokens of every row, padded to ``M`` tokens.

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
            # The heads of a prompt have the same bias: take the first of each.
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
        """Return keys and values of each row, prompt included: ``[R, kv_heads, n, D]``."""
        own_keys, own_values = (each[:, :, : self._width] for each in self._own[layer])
        if not self._prompts:
            return own_keys, own_values
        keys, values = select_rows(self._prompts[layer], self._owner)
        return torch.cat([keys, own_keys], 2), torch.cat([values, own_values], 2)

    def begin_turn(self) -> None:
        """Set the column of the next tokens, behind the longest row."""
        self.length = int(self.columns.max())

    def merge(self, other: RaggedCache, rows: Sequence[int], steps: int) -> None:
        """Copy the last ``steps`` tokens of a branch's first rows to the rows of this cache."""
        own_rows = torch.tensor(rows, device=self.columns.device)
        start, count, end = self.length, len(rows), other.length
        self.length += steps
        self.reserve(self.length)
        new = slice(start, self.length)
        for memory, others in zip(self._own, other._own, strict=True):
            for target, source in zip(memory, others, strict=True):
                target[own_rows, :, new] = source[:count, :, end - steps : end]

    def end_turn(self, counts: Tensor) -> None:
        """Keep the first tokens of each row of this turn, and move them behind its earlier tokens.

        Args:
            counts: number of tokens to keep, int64, shape ``[R]``.
        """
        start, longest = int(self.columns.max()), int(counts.max())
        short = (self.columns < start).nonzero()[:, 0]
        if len(short) and longest:
            self._move_up(short, start, longest)
        before, self.columns = self.columns[:, None], self.columns + counts
        column = torch.arange(self._bias_of_columns.shape[-1], device=counts.device)
        is_new = (column >= before) & (column < self.columns[:, None])
        self._bias.masked_fill_(is_new[:, None], 0.0)
        self._bias.masked_fill_((column >= self.columns[:, None])[:, None], -torch.inf)
        self.length = int(self.columns.max())

    def _move_up(self, rows: Tensor, start: int, count: int) -> None:
        """Move ``count`` columns of some rows from ``start`` to the end of each row's tokens."""
        columns = self.columns[rows, None] + torch.arange(count, device=rows.device)
        row = rows[:, None]
        for memory in self._own:
            for each in memory:
                # Indexed dimensions come first: [rows, count, kv_heads, D].
                each[row, :, columns] = each[rows, :, start : start + count].transpose(1, 2)
