"""KV cache of a session: rows of different lengths, which are read on and sampled in turn."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.engine.cache import Cache, Memory

# Scores that a read works out at a time: 4 million, 16 MB.
_SCORES = 2**22


class RaggedCache(Cache):
    """KV cache whose rows have lengths of their own.

    A row's next token goes behind its own last one, wherever that is; what stands behind it up to
    the longest row is not seen. Prompts are shared as in :class:`rlcomp.engine.cache.Cache`.

    Args:
        prompts: what each layer remembers of the prompts; all end at the last of ``L`` tokens.
        lengths: of the prompts; the longest has ``L`` tokens.
        owners: which prompt each row answers.
        limit: the most tokens a row will hold.

    Attributes:
        columns: where each row's next token goes, int64, shape ``[R]``.
    """

    def __init__(
        self, prompts: list[Memory], lengths: Sequence[int], owners: Sequence[int], limit: int
    ) -> None:
        device = prompts[0][0].device
        self.columns = torch.zeros(len(owners), dtype=torch.int64, device=device)
        super().__init__(prompts, lengths, owners, limit)
        biases = len(owners) * prompts[0][0].shape[1]
        self._seen = self._seen.expand(biases, -1, -1).contiguous()
        self._at = self.columns

    def branch(self) -> RaggedCache:
        """A cache of the same rows, which may keep some of them and leave this one as it is."""
        other = copy.copy(self)
        other._own, other._prompts = [*self._own], [*self._prompts]
        other._lengths = [*self._lengths]
        other.columns, other._seen = self.columns.clone(), self._seen.clone()
        return other

    def grow(self) -> None:
        """Make room for one more token in every row."""
        self.length += 1
        self.reserve(self.length)
        self._at = self.columns
        self._see(torch.arange(len(self._at), device=self._at.device), self._at)
        self.columns = self.columns + 1

    def _see(self, rows: Tensor, columns: Tensor) -> None:
        heads = self._own[0][0].shape[1]
        self._seen.view(-1, heads, self._seen.shape[-1])[rows, :, columns] = 0.0

    def keep(self, rows: Sequence[int]) -> None:
        """Keep some rows, in this order, and their prompts."""
        self.columns = self.columns[torch.tensor(rows, device=self.columns.device)]
        super().keep(rows)
        self.length = int(self.columns.max())

    def _copy(self, owners: Sequence[int]) -> None:
        before = self.length
        super()._copy(owners)
        self.columns = self.columns + (self.length - before)

    def _write(self, layer: int, k: Tensor, v: Tensor) -> None:
        keys, values = self._own[layer]
        rows = torch.arange(len(self._at), device=self._at.device)
        keys[rows, :, :, self._at] = k
        values[rows, :, self._at] = v

    def begin_read(self, rows: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Make room for more tokens of each row, which are read at once.

        Args:
            rows: of each token its row, int64, shape ``[N]``, ascending.
            counts: how many each row has.

        Returns:
            Of each token its number among those of its row, shape ``[N]``; what is added to the
            scores of the rows' own memory, shape ``[R, M, C]``, for the ``M`` tokens of the longest
            one; and the column where each token goes, shape ``[N]``.
        """
        device = self.columns.device
        size = torch.tensor(counts, device=device)
        number = torch.cat([torch.arange(count, device=device) for count in counts])
        columns = self.columns[rows] + number
        self.length = max(self.length, int((self.columns + size).max()))
        self.reserve(self.length)
        before = self.columns
        heads = self._own[0][0].shape[1]
        seen = self._seen.view(-1, heads, self._seen.shape[-1])[:, :1, : self._width].clone()
        self._see(rows, columns)
        self.columns = self.columns + size
        place = torch.arange(self._width, device=device)
        asking = torch.arange(max(counts), device=device)
        ahead = (place >= before[:, None, None]) & (
            place <= before[:, None, None] + asking[None, :, None]
        )
        return number, torch.where(ahead, torch.zeros_like(seen), seen), columns

    def write(self, layer: int, rows: Tensor, columns: Tensor, k: Tensor, v: Tensor) -> None:
        """Keys and values ``[N, kv_heads, D]`` of tokens, at their rows and columns."""
        keys, values = self._own[layer]
        keys[rows, :, :, columns] = k
        values[rows, :, columns] = v

    def attend_some(self, layer: int, q: Tensor, bias: Tensor, scale: float) -> Tensor:
        """What several tokens of every row attend to.

        Args:
            layer: which.
            q: shape ``[R, M, heads, D]``.
            bias: shape ``[R, M, C]``.
            scale: of the logits.

        Returns:
            Shape ``[R, M, heads * D]``.
        """
        rows, _, heads, size = q.shape
        kv_heads = self._own[0][0].shape[1]
        wide = self._width + (self._prompts[0][0].shape[-1] if self._prompts else 0)
        step = max(1, _SCORES // (rows * heads * wide))
        parts = []
        for some, own in zip(q.split(step, 1), bias.split(step, 1), strict=True):
            count = some.shape[1]
            grouped = some.view(rows, count, kv_heads, -1, size).permute(0, 2, 3, 1, 4)
            asked = grouped.reshape(rows * kv_heads, -1, size)
            spread = own[:, None, None].expand(-1, kv_heads, heads // kv_heads, -1, -1)
            read = self._read(layer, asked, spread.reshape(*asked.shape[:2], -1), scale)
            read = read.view(rows, kv_heads, -1, count, size).permute(0, 3, 1, 2, 4)
            parts.append(read.reshape(rows, count, -1))
        return torch.cat(parts, 1)

    def take_back(self, other: RaggedCache, rows: Sequence[int], steps: int) -> None:
        """The last tokens of rows that a branch has sampled.

        Args:
            other: the branch.
            rows: of each of its first rows, which row it is here.
            steps: how many tokens each of them has more than here.
        """
        device = self.columns.device
        here = torch.tensor(rows, device=device)
        count = len(rows)
        there = (other.columns[:count, None] - steps) + torch.arange(steps, device=device)
        places = self.columns[here, None] + torch.arange(steps, device=device)
        self.length = max(self.length, int(places.max()) + 1)
        self.reserve(self.length)
        mine, theirs = here[:, None], torch.arange(count, device=device)[:, None]
        for layer, (keys, values) in enumerate(self._own):
            new_keys, new_values = other._own[layer]
            keys[mine, :, :, places] = new_keys[theirs, :, :, there]
            values[mine, :, places] = new_values[theirs, :, there]
        self._see(mine.expand(-1, steps).flatten(), places.flatten())
        self.columns[here] += steps

    def cut(self, columns: Tensor) -> None:
        """Forget what rows hold from a column on, int64 ``[R]``."""
        heads = self._own[0][0].shape[1]
        place = torch.arange(self._seen.shape[-1], device=columns.device)
        beyond = place >= columns[:, None]
        self._seen.view(-1, heads, len(place)).masked_fill_(beyond[:, None], -torch.inf)
        self.columns = columns
        self.length = int(columns.max())
