"""Keys and values of prompts and of the answers that grow behind them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

# Columns by which the part of an answer's memory that is read grows, so that shapes are few.
_STEP = 32


class Cache:
    """What a batch of answers attends to: prompts, each held once, and each answer's own tokens.

    Rows are answers. To read a prompt, its rows take slots beside it, as many for every prompt;
    a product of matrices then reads its keys once for all of its rows.

    Memory, in numbers a layer: ``2 * kv_heads * D`` for each token, of the prompts up to the
    longest one, and of the rows up to the capacity, which doubles up to ``limit``.

    Args:
        prompts: keys and values of the prompts, for each layer, shape ``[2, P, kv_heads, L, D]``.
        lengths: of the prompts; the longest has ``L`` tokens.
        owners: which prompt each row answers.
        limit: the most tokens a row will hold.
    """

    def __init__(
        self, prompts: list[Tensor], lengths: Sequence[int], owners: Sequence[int], limit: int
    ) -> None:
        self._prompts = prompts
        self._lengths = list(lengths)
        self._limit = limit
        _, _, heads, _, size = prompts[0].shape
        # Zeros: what is not yet written takes part in sums with weight 0.
        self._own = [each.new_zeros(2, len(owners), heads, 0, size) for each in prompts]
        self._seen = prompts[0].new_zeros(0)
        self.length = 0
        self._seat(owners)

    def grow(self) -> None:
        """Make room for one more token in every row."""
        self.length += 1
        capacity = len(self._seen)
        if self.length > capacity:
            more = min(max(_STEP, capacity), self._limit - capacity)
            for layer, own in enumerate(self._own):  # one by one: no second cache beside the first
                self._own[layer] = F.pad(own, (0, 0, 0, more))
            self._seen = F.pad(self._seen, (0, more), value=-torch.inf)
        self._seen[self.length - 1] = 0.0

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some rows, in this order, and with the prompts they answer."""
        index = torch.tensor(rows, device=self._seen.device)
        for layer, own in enumerate(self._own):
            self._own[layer] = own.index_select(1, index)
        owners = [self._owners[row] for row in rows]
        prompts = sorted(set(owners))
        if len(prompts) < len(self._lengths):
            self._lengths = [self._lengths[prompt] for prompt in prompts]
            places = torch.tensor(prompts, device=index.device)
            longest = max(self._lengths)
            for layer, each in enumerate(self._prompts):
                self._prompts[layer] = each[:, :, :, :longest].index_select(1, places)
        new = {prompt: place for place, prompt in enumerate(prompts)}
        self._seat([new[owner] for owner in owners])

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """What every row's newest token attends to.

        Args:
            layer: which.
            q: shape ``[R, heads, D]``.
            k: shape ``[R, kv_heads, D]``, kept.
            v: shape ``[R, kv_heads, D]``, kept.
            scale: of the logits.

        Returns:
            Shape ``[R, heads * D]``.
        """
        rows, heads, size = k.shape
        own = self._own[layer]
        own[0, :, :, self.length - 1] = k
        own[1, :, :, self.length - 1] = v
        width = min(-(-self.length // _STEP) * _STEP, self._limit)
        own_keys, own_values = own[:, :, :, :width].flatten(1, 2)
        keys, values = self._prompts[layer].flatten(1, 2)
        # Heads that share keys and values ask together.
        q = q.reshape(rows * heads, -1, size)
        own_scores = torch.baddbmm(self._seen[:width], q, own_keys.mT, alpha=scale)
        asked = self._to_slots(q, heads)
        scores = torch.baddbmm(self._padding, asked, keys.mT, alpha=scale)
        scores = torch.cat([scores, self._to_slots(own_scores, heads)], -1)
        weights, own_weights = scores.softmax(-1).split_with_sizes([keys.shape[1], width], -1)
        read = self._to_rows(torch.bmm(weights, values), heads)
        return torch.baddbmm(read, self._to_rows(own_weights, heads), own_values).reshape(rows, -1)

    def _to_slots(self, x: Tensor, heads: int) -> Tensor:
        """From ``[R * kv_heads, m, n]`` to ``[P * kv_heads, slots * m, n]``."""
        _, m, n = x.shape
        x = x.reshape(-1, heads, m * n)
        if self._row_of is not None:
            x = x.index_select(0, self._row_of)
        x = x.view(-1, self._slots, heads, m * n).transpose(1, 2)
        return x.reshape(-1, self._slots * m, n)

    def _to_rows(self, x: Tensor, heads: int) -> Tensor:
        """From ``[P * kv_heads, slots * m, n]`` to ``[R * kv_heads, m, n]``."""
        _, rows, n = x.shape
        m = rows // self._slots
        x = x.reshape(-1, heads, self._slots, m * n).transpose(1, 2)
        x = x.reshape(-1, heads, m * n)
        if self._slot_of is not None:
            x = x.index_select(0, self._slot_of)
        return x.reshape(-1, m, n)

    def _seat(self, owners: Sequence[int]) -> None:
        """Give every row a slot beside its prompt. Empty slots repeat the first row."""
        self._owners = list(owners)
        device = self._seen.device
        taken = [0] * len(self._lengths)
        places = []
        for owner in owners:
            places.append((owner, taken[owner]))
            taken[owner] += 1
        self._slots = max(taken)
        slot_of = [owner * self._slots + place for owner, place in places]
        self._row_of = self._slot_of = None
        if slot_of != list(range(len(taken) * self._slots)):
            self._slot_of = torch.tensor(slot_of, device=device)
            row_of = torch.zeros(len(taken) * self._slots, dtype=torch.int64, device=device)
            self._row_of = row_of.index_copy_(
                0, self._slot_of, torch.arange(len(owners), device=device)
            )
        self._padding = self._mask_padding()

    def _mask_padding(self) -> Tensor:
        """0 at the prompts' tokens and ``-inf`` behind them, in the shape of their scores."""
        _, _, heads, longest, _ = self._prompts[0].shape
        bias = self._seen.new_zeros(len(self._lengths), longest)
        if min(self._lengths) == longest:
            return bias[:1, :1]
        lengths = torch.tensor(self._lengths, device=bias.device)[:, None]
        bias.masked_fill_(torch.arange(longest, device=bias.device) >= lengths, -torch.inf)
        return bias.repeat_interleave(heads, 0)[:, None]
