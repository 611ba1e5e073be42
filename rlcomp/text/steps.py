"""Steps of a response: the split of a text, and the token that completes each step."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import accumulate

from transformers import PreTrainedTokenizerBase

from rlcomp.errors import ConfigError
from rlcomp.text.token_bytes import token_bytes
from rlcomp.text.tokenizer import decode_rows


class StepTokens:
    """Finder of the token that completes each step of a response.

    Args:
        tokenizer: the policy's.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        try:
            self._table: list[bytes] | None = token_bytes(tokenizer)
        except ConfigError:  # its decoder does not define the bytes of a token
            self._table = None

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of sampled tokens, without special ones."""
        return decode_rows(self.tokenizer, [ids])[0]

    def counts(self, ids: Sequence[int], text: str, steps: Sequence[str]) -> list[int]:
        """Count the tokens of the text up to the end of each step.

        Args:
            ids: the tokens of the response.
            text: the text of these tokens.
            steps: consecutive parts of the text, from its beginning.

        Returns:
            One number per step, at least 1: the fewest tokens whose text begins with those steps.
        """
        ends = self._ends(ids, text)
        if not ends:
            return [self._complete(ids, prefix) for prefix in accumulate(steps)]
        stops = accumulate(len(step.encode()) for step in steps)
        return [bisect.bisect_left(ends, stop) + 1 for stop in stops]

    def _ends(self, ids: Sequence[int], text: str) -> list[int] | None:
        """Return the bytes up to the end of each token; None if these are not the text's bytes."""
        if self._table is None:
            return None
        parts = [self._table[token] for token in ids]
        return [*accumulate(map(len, parts))] if b"".join(parts) == text.encode() else None

    def _complete(self, ids: Sequence[int], prefix: str) -> int:
        """Return the smallest number of tokens whose text starts with the given prefix."""
        return bisect.bisect_left(
            range(len(ids)), True, key=lambda n: self.text(ids[:n]).startswith(prefix)
        )


def split_steps(text: str, separator: str) -> list[str]:
    r"""Split a text into steps, separators included; the steps concatenate to the text.

    Blank pieces join the step before them, or the first step. Without a separator every character
    is a step.

    Examples:
        >>> split_steps("\n1 + 1 = 2\n\nso 2\n", "\n")
        ['\n1 + 1 = 2\n\n', 'so 2\n']
        >>> split_steps("", "\n")
        ['']
        >>> split_steps("124", "")
        ['1', '2', '4']
    """
    if not separator:
        return list(text) or [""]
    *ended, rest = text.split(separator)
    steps, step, has_text = list[str](), list[str](), False
    for part, end in [*((part, separator) for part in ended), (rest, "")]:
        if has_text and part.strip():
            steps.append("".join(step))
            step = []
        step += [part, end]
        has_text = has_text or bool(part.strip())
    return [*steps, "".join(step)]
