"""KV cache with shared prompts for group decoding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

# Attention reads a multiple of this number of columns, so that there are few distinct shapes.
_STEP = 32
# Maximum size in bytes of a layer's prompts, copied for each row: about the cache of a core. Up to
# this size copies are as fast as shared prompts.
_COPY_BYTES = 2**21
# Keys and values, ``[N, kv_heads, L, D]`` each.
Memory = tuple[Tensor, Tensor]


class Cache:
    """KV cache of a batch of responses with shared prompts.

    Every prompt has the same number of slots for its rows, so that one matrix product reads a
    prompt's keys once for all of its rows. If the prompts are short, or few rows remain, each row
    gets a copy of its prompt before its own tokens, because attention then takes fewer products.

    Memory, in numbers per layer: ``2 * kv_heads * D`` for each token. Prompts are padded to the
    longest one, rows to the capacity. The capacity doubles up to ``limit``.

    Args:
        prompts: keys and values of the prompts, by layer; shape ``[P, kv_heads, L, D]`` each; all
            prompts end in the last of ``L`` columns. :meth:`keep` changes the list.
        lengths: number of tokens of each prompt; the maximum is ``L``.
        owners: index of the prompt of each row.
        limit: maximum number of tokens of a row after its prompt.
    """

    def __init__(
        self, prompts: list[Memory], lengths: Sequence[int], owners: Sequence[int], limit: int
    ) -> None:
        self._prompts = prompts
        self._lengths = list(lengths)
        self._limit = limit
        values = prompts[0][1]
        # The rows have no columns yet: which prompt they are selected from does not matter.
        first_prompts = torch.zeros(len(owners), dtype=torch.int64, device=values.device)
        self._own = [
            select_rows((key[:, :, :0], value[:, :, :0]), first_prompts) for key, value in prompts
        ]
        # Bias of the logits of a row's own columns: -inf where no token is written. Shape
        # [1, 1, columns], the same for all rows; or [R * kv_heads, 1, columns].
        self._bias_of_columns = values.new_zeros(1, 1, 0)
        self.length = 0  # number of the rows' own columns in use, a copied prompt included
        self._attach(owners)

    def grow(self) -> None:
        """Add one column for the next token of every row."""
        self.length += 1
        self.reserve(self.length)
        self._bias_of_columns[..., self.length - 1] = 0.0

    def reserve(self, length: int) -> None:
        """Allocate columns for rows of a given length."""
        capacity = self._bias_of_columns.shape[-1]
        if length > capacity:
            more = min(self._growth(capacity, length), self._limit - capacity)
            for layer, (keys, values) in enumerate(self._own):  # one layer at a time
                self._own[layer] = F.pad(keys, (0, 0, 0, more)), F.pad(values, (0, 0, 0, more))
            self._bias_of_columns = F.pad(self._bias_of_columns, (0, more), value=-torch.inf)

    def _growth(self, capacity: int, length: int) -> int:
        """Return the number of columns to add to a capacity for rows of a length."""
        return max(_STEP, capacity, length - capacity)

    def keep(self, rows: Sequence[int]) -> None:
        """Reduce the cache to some rows, in this order, and their prompts."""
        index = torch.tensor(rows, device=self._bias_of_columns.device)
        for layer, memory in enumerate(self._own):
            self._own[layer] = select_rows(memory, index)
        if len(self._bias_of_columns) > 1:
            heads = self._own[0][0].shape[1]
            self._bias_of_columns = _select_bias(self._bias_of_columns, heads, index)
        if not self._prompts:
            return
        owners = [self._owners[row] for row in rows]
        prompts = sorted(set(owners))
        if len(prompts) < len(self._lengths):
            self._lengths = [self._lengths[prompt] for prompt in prompts]
            prompt_index = torch.tensor(prompts, device=index.device)
            longest = max(self._lengths)
            for layer, (keys, values) in enumerate(self._prompts):
                crop = keys[:, :, -longest:], values[:, :, -longest:]
                self._prompts[layer] = select_rows(crop, prompt_index)
        new_indices = {prompt: n for n, prompt in enumerate(prompts)}
        self._attach([new_indices[owner] for owner in owners])

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """Compute attention of the newest token of every row.

        Args:
            layer: index of the layer.
            q: shape ``[R, heads, D]``.
            k: shape ``[R, kv_heads, D]``; appended to the cache.
            v: shape ``[R, kv_heads, D]``; appended to the cache.
            scale: factor of the attention logits.

        Returns:
            Shape ``[R, heads * D]``.
        """
        rows, heads, size = k.shape
        self._write(layer, k, v)
        # Query heads that share keys and values are one batch entry.
        q = q.reshape(rows * heads, -1, size)
        return self._read(layer, q, self._bias_of_columns[..., : self._width], scale).view(rows, -1)

    @property
    def _width(self) -> int:
        """Return the number of columns that attention reads."""
        return min(-(-self.length // _STEP) * _STEP, self._bias_of_columns.shape[-1])

    def _write(self, layer: int, k: Tensor, v: Tensor) -> None:
        own_keys, own_values = self._own[layer]
        own_keys[:, :, self.length - 1] = k
        own_values[:, :, self.length - 1] = v

    def _read(self, layer: int, q: Tensor, bias: Tensor, scale: float) -> Tensor:
        """Compute attention of queries ``[R * kv_heads, n, D]`` with a bias of the scores."""
        size, width = q.shape[-1], self._width
        own_keys, own_values = self._own[layer]
        own_keys = own_keys[:, :, :width].flatten(0, 1)
        own_values = own_values[:, :, :width].flatten(0, 1)
        own_scores = torch.baddbmm(bias, q, own_keys.transpose(1, 2), alpha=scale)
        if not self._prompts:
            return torch.bmm(own_scores.softmax(-1), own_values)
        keys, values = (each.flatten(0, 1) for each in self._prompts[layer])
        queries = q.index_select(0, self._row_of).view(len(keys), -1, size)
        scores = torch.baddbmm(self._padding, queries, keys.transpose(1, 2), alpha=scale)
        own_scores = own_scores.index_select(0, self._row_of).view(len(keys), -1, width)
        weights = torch.cat([scores, own_scores], -1).softmax(-1)
        weights, own_weights = weights.split_with_sizes([keys.shape[1], width], -1)
        from_prompt = torch.bmm(weights, values).view(-1, *q.shape[1:])
        from_prompt = from_prompt.index_select(0, self._slot_of)
        own_weights = own_weights.reshape(-1, q.shape[1], width)
        own_weights = own_weights.index_select(0, self._slot_of)
        return torch.baddbmm(from_prompt, own_weights, own_values)

    def _attach(self, owners: Sequence[int]) -> None:
        """Attach rows to their prompts: by copies of the prompts, or by slots."""
        self._padding = self._mask_padding()
        if sum(each[:1].nbytes for each in self._prompts[0]) * len(owners) <= _COPY_BYTES:
            self._copy_prompts(owners)
        else:
            self._assign_slots(owners)

    def _copy_prompts(self, owners: Sequence[int]) -> None:
        """Put a copy of its prompt before the tokens of each row."""
        index = torch.tensor(owners, device=self._bias_of_columns.device)
        for layer, (prompts, own) in enumerate(zip(self._prompts, self._own, strict=True)):
            keys, values = select_rows(prompts, index)
            self._own[layer] = torch.cat([keys, own[0]], 2), torch.cat([values, own[1]], 2)
        longest = max(self._lengths)
        padding, bias = self._padding, self._bias_of_columns
        if len(padding) > 1:
            heads = self._own[0][0].shape[1]
            padding = _select_bias(padding, heads, index)
        biases = max(len(padding), len(bias))
        padding = padding.expand(biases, -1, longest)
        self._bias_of_columns = torch.cat([padding, bias.expand(biases, -1, -1)], -1)
        self.length += longest
        self._limit += longest
        self._prompts = []

    def _assign_slots(self, owners: Sequence[int]) -> None:
        """Assign every row to a slot of its prompt; unused slots repeat the first row.

        Sets ``_row_of``: the row and kv head of each slot; and ``_slot_of``: the slot of each row
        and kv head. Rows and slots are counted with their kv heads.
        """
        self._owners = list(owners)
        prompts, heads = self._prompts[0][0].shape[:2]
        counts = [0] * prompts
        slots = []
        for owner in owners:
            slots.append((owner, counts[owner]))
            counts[owner] += 1
        row_of = torch.zeros(prompts, 1, max(counts), dtype=torch.int64)
        for row, (owner, slot) in enumerate(slots):
            row_of[owner, 0, slot] = row
        # The heads of a row are adjacent; a prompt has slots for each of its heads.
        head = torch.arange(heads)
        slot_of = torch.tensor(slots)
        slot_of = (slot_of[:, :1] * heads + head) * max(counts) + slot_of[:, 1:]
        self._row_of = (row_of * heads + head[:, None]).flatten().to(self._bias_of_columns.device)
        self._slot_of = slot_of.flatten().to(self._bias_of_columns.device)

    def _mask_padding(self) -> Tensor:
        """Return the bias of the prompts' scores: 0 at tokens, ``-inf`` at padding.

        Shape ``[P * kv_heads, 1, L]``; ``[1, 1, 1]`` if no prompt is padded.
        """
        _, heads, longest, _ = self._prompts[0][0].shape
        bias = self._bias_of_columns.new_zeros(len(self._lengths), longest)
        if min(self._lengths) == longest:
            return bias[:1, None, :1]
        missing = longest - torch.tensor(self._lengths, device=bias.device)[:, None]
        bias.masked_fill_(torch.arange(longest, device=bias.device) < missing, -torch.inf)
        return bias.repeat_interleave(heads, 0)[:, None]


def select_rows(memory: Memory, rows: Tensor) -> Memory:
    """Return the keys and values of some rows, in this order."""
    keys, values = memory
    return keys.index_select(0, rows), values.index_select(0, rows)


def _select_bias(bias: Tensor, heads: int, rows: Tensor) -> Tensor:
    """Select rows of a bias of shape ``[R * heads, 1, n]``."""
    count = len(bias) // heads
    return bias.view(count, heads, 1, bias.shape[-1])[rows].flatten(0, 1)
