"""Stop rule of a decode loop: stop tokens, stop texts and a limit for each row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class StopRule:
    """Rule that ends rows: a stop token, the end of a stop text, or a limit.

    Stop texts are searched in the bytes of the sampled tokens, because token boundaries need not
    match them. A token that extends beyond a stop text is kept whole. A rule serves one rollout.

    Args:
        ids: tokens that end a row.
        limits: maximum number of tokens of each row, at least 1.
        texts: byte strings that end a row.
        table: the bytes of each token (:func:`rlcomp.text.token_bytes.token_bytes`), if there are
            stop texts.

    Attributes:
        lengths: number of tokens of each row, including the one that ended it.
        truncated: whether the limit ended each row, not a stop.
    """

    def __init__(
        self,
        ids: Sequence[int],
        limits: Sequence[int],
        texts: Sequence[bytes] = (),
        table: Sequence[bytes] = (),
    ) -> None:
        self.ids = frozenset(ids)
        self.limits = limits
        self.texts = tuple(texts)
        self.table = table
        self.lengths = [0] * len(limits)
        self.truncated = [False] * len(limits)
        self._over = [False] * len(limits)
        # The last bytes of each row, where a stop text may begin.
        self._tails = [b""] * len(limits)
        self._tail_length = max(map(len, self.texts), default=1) - 1

    def take(self, rows: Sequence[int], tokens: Tensor) -> list[bool]:
        """Add a token to some rows; return whether each is finished. Ignores finished rows.

        Args:
            rows: numbers of rows.
            tokens: shape ``[len(rows)]``, int64.

        Examples:
            >>> rule = StopRule([1], limits=[2, 2])
            >>> rule.take([0, 1], torch.tensor([1, 5])), rule.take([1], torch.tensor([5]))
            ([True, False], [True])
            >>> rule.lengths, rule.truncated
            ([1, 2], [False, True])
        """
        for row, token in zip(rows, tokens.tolist(), strict=True):
            if not self._over[row]:
                self._take(row, token)
        return [self._over[row] for row in rows]

    def take_steps(self, rows: Sequence[int], tokens: Tensor) -> list[bool]:
        """Add the tokens of several steps; return whether each row is finished.

        Args:
            rows: numbers of rows.
            tokens: shape ``[steps, len(rows)]``, int64, on the CPU.

        Examples:
            >>> rule = StopRule([1], limits=[3, 3])
            >>> rule.take_steps([0, 1], torch.tensor([[1, 5], [1, 5]])), rule.lengths
            ([True, False], [1, 2])
        """
        if self.texts:
            for step in tokens:
                self.take(rows, step)
            return [self._over[row] for row in rows]
        ids = torch.tensor(sorted(self.ids), dtype=tokens.dtype)
        ends = torch.isin(tokens, ids)
        first = torch.where(ends.any(0), ends.int().argmax(0), len(tokens)).tolist()
        for row, first_end in zip(rows, first, strict=True):
            if self._over[row]:
                continue
            left = self.limits[row] - self.lengths[row]
            ended = first_end < min(left, len(tokens))
            self.lengths[row] += min(first_end + 1 if ended else len(tokens), left)
            self.truncated[row] = not ended and self.lengths[row] == self.limits[row]
            self._over[row] = ended or self.truncated[row]
        return [self._over[row] for row in rows]

    def finish(self, rows: Sequence[int], lengths: Sequence[int], ended: Sequence[bool]) -> None:
        """Set the results of rows that the native library has finished.

        Args:
            rows: numbers of rows.
            lengths: number of tokens of each row.
            ended: whether a stop ended each row, not its limit.

        Examples:
            >>> rule = StopRule([1], limits=[3, 3])
            >>> rule.finish([0, 1], [2, 3], [True, False])
            >>> rule.lengths, rule.truncated
            ([2, 3], [False, True])
        """
        for row, length, stopped in zip(rows, lengths, ended, strict=True):
            self.lengths[row] = length
            self.truncated[row] = not stopped
            self._over[row] = True

    def _take(self, row: int, token: int) -> None:
        self.lengths[row] += 1
        ended = token in self.ids or (bool(self.texts) and self._completes(row, token))
        self.truncated[row] = not ended and self.lengths[row] == self.limits[row]
        self._over[row] = ended or self.truncated[row]

    def _completes(self, row: int, token: int) -> bool:
        """Add the bytes of a token to a row; return whether they complete a stop text."""
        text_bytes = self._tails[row] + self.table[token]
        self._tails[row] = text_bytes[-self._tail_length :] if self._tail_length else b""
        return any(text in text_bytes for text in self.texts)

    def results(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return ``lengths`` and ``truncated`` as tensors ``[B]``, int64 and bool."""
        return (
            torch.tensor(self.lengths, device=device),
            torch.tensor(self.truncated, device=device),
        )
