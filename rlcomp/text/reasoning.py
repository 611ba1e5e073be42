"""Reasoning in a response: its thought (chain of thought) and its steps."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.batch import decode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.text.answer_tokens import answer_ids
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.token_bytes import row_bytes, token_bytes
from rlcomp.text.tokenizer import decode_rows, encode_all, encode_prompts


def last_words(context: str, *, count: int = 3) -> str:
    """Return the last words of a text, as the thought of a demonstration without one.

    Such a thought teaches the format (a thought, its end, the target) and no reasoning.

    Examples:
        >>> last_words("to be or not to be", count=2)
        'to be'
    """
    return " ".join(context.split()[-count:])


class ThoughtEnd:
    """End-of-thought detection: the end text is searched in the bytes of the tokens.

    ``text`` is the end text, such as ``"</think>"``. Token boundaries need not match it: the token
    that completes it belongs to the thought. A special token counts as the text only if the
    tokenizer writes the text as that token. DataError if the tokenizer cannot write the text;
    ConfigError as :func:`rlcomp.text.token_bytes.token_bytes`.

    Examples:
        >>> from rlcomp.text.tokenizer import character_tokenizer
        >>> end = ThoughtEnd(character_tokenizer(characters="ab/"), "/")
        >>> end.ids, end.length([2, 3, 4, 2, 4]), end.length([2, 3])
        ([4], 3, None)
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, text: str) -> None:
        (self.ids,) = encode_all(tokenizer, [text])
        self.end_bytes = text.encode()
        self._table = token_bytes(tokenizer)
        if len(self.ids) == 1:  # a special token has no bytes in the table
            self._table[self.ids[0]] = self.end_bytes
        self._eos = int(tokenizer.eos_token_id)

    def bytes_of(self, response: Sequence[int]) -> bytes:
        """Return the bytes of a response; the end is searched in them."""
        return row_bytes(self._table, response)

    def length(self, response: Sequence[int]) -> int | None:
        """Return the length of the thought in tokens, end included; None without an end."""
        start = self.bytes_of(response).find(self.end_bytes)
        if start < 0:
            return None
        ends = list(accumulate(len(self._table[token]) for token in response))
        return bisect_left(ends, start + len(self.end_bytes)) + 1

    def close(self, response: Sequence[int]) -> list[int]:
        """Return the thought of a response.

        Without an end it is the whole response without EOS, with the end appended.
        """
        length = self.length(response)
        if length is not None:
            return list(response[:length])
        thought = response[:-1] if response and response[-1] == self._eos else response
        return [*thought, *self.ids]


def response_ids(batch: TensorDict) -> tuple[list[list[int]], Tensor]:
    """Return the ids of each response, holes of its mask included, and its first column ``[B]``.

    The column is ``T`` for rows without a response.
    """
    mask = batch["response_mask"]
    position = torch.arange(mask.shape[1], device=mask.device)
    starts = torch.where(mask, position, mask.shape[1]).amin(1)
    ends = torch.where(mask, position + 1, 0).amax(1)
    spans = zip(batch["tokens"].tolist(), starts.tolist(), ends.tolist(), strict=True)
    return [row[start:end] for row, start, end in spans], starts


def first_targets(
    tokenizer: PreTrainedTokenizerBase, batch: TensorDict, num_tokens: int
) -> list[list[int]]:
    """Return the tokens of each answer up to its ``num_tokens``-th token end, or to the last one.

    ``batch`` holds ``answer`` and the token ends as ``answer_ends``, ``[B, W]``
    (:func:`answer_prefix`). DataError if the tokenizer cannot write an answer.
    """
    rows = zip(decode_texts(batch["answer"]), batch["answer_ends"].tolist(), strict=True)
    return answer_ids(tokenizer, [answer_prefix(answer, ends, num_tokens) for answer, ends in rows])


def answer_prefix(answer: str, ends: Sequence[bool], count: int) -> str:
    """Return the prefix of an answer up to its ``count``-th token end, or the last one.

    ``ends`` holds for each byte whether a token ends with it. The prefix has whole characters.

    Examples:
        >>> answer_prefix("né!", [True, True, False, True], 2)
        'né'
    """
    raw = answer.encode()
    stops = [byte + 1 for byte, end in enumerate(ends) if end][:count]
    size = stops[-1] if stops else 0
    while size < len(raw) and raw[size] & 0b1100_0000 == 0b1000_0000:  # inside a character
        size += 1
    return raw[:size].decode()


def rows_after_thought(
    tokenizer: PreTrainedTokenizerBase,
    batch: TensorDict,
    targets: Sequence[Sequence[int]],
    end: ThoughtEnd,
) -> TensorDict:
    """Build rows of prompt, thought and target ids; ``response_mask`` is the target. On the CPU."""
    answers, starts = response_ids(batch)
    lengths = torch.minimum(starts, batch["attention_mask"].sum(1)).tolist()
    rows = zip(batch["tokens"].tolist(), lengths, answers, strict=True)
    heads = [row[:length] + end.close(answer) for row, length, answer in rows]
    return rows_from_ids(tokenizer, heads, targets)


def rows_without_thought(
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    targets: Sequence[Sequence[int]],
    think_start: str,
) -> TensorDict:
    """Build rows of prompt and target; ``think_start``, the end of each prompt, is left out.

    ``response_mask`` is the target. The rows are on the CPU. DataError if a prompt does not end
    with ``think_start``.

    Examples:
        >>> from rlcomp.text.tokenizer import byte_tokenizer
        >>> rows_without_thought(byte_tokenizer(), ["a<t>"], [[7]], "<t>")["tokens"].shape
        torch.Size([1, 2])
    """
    for prompt in prompts:
        if not prompt.endswith(think_start):
            raise DataError(
                f"the prompt {'...' * (len(prompt) > 60)}{prompt[-60:]!r} does not end with "
                f"{think_start!r}, so that there is no text without a thought to compare with: let "
                "task.template end with it, or set reward.think_start to what prompts end with"
            )
    contexts = [prompt.removesuffix(think_start) for prompt in prompts]
    return rows_from_ids(tokenizer, encode_prompts(tokenizer, contexts), targets)


class StepTokens:
    """Finder of the token that completes each step of a response."""

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
        """Count for each step the tokens up to its end, earlier steps included; at least 1.

        ``steps`` are consecutive parts of the ``text`` of ``ids``, from its beginning.
        """
        ends = self._ends(ids, text)
        if not ends:
            return [self._complete(ids, prefix) for prefix in accumulate(steps)]
        stops = accumulate(len(step.encode()) for step in steps)
        return [bisect_left(ends, stop) + 1 for stop in stops]

    def _ends(self, ids: Sequence[int], text: str) -> list[int] | None:
        """Return the number of bytes up to the end of each token.

        None if the bytes of tokens are not known, or are not those of the text.
        """
        if self._table is None:
            return None
        parts = [self._table[token] for token in ids]
        return [*accumulate(map(len, parts))] if b"".join(parts) == text.encode() else None

    def _complete(self, ids: Sequence[int], prefix: str) -> int:
        """Return the smallest number of tokens, at least 1, whose text starts with the prefix.

        Return ``len(ids)`` if there is none, and 1 without ids.
        """
        numbers = range(1, len(ids))
        index = bisect_left(numbers, True, key=lambda n: self.text(ids[:n]).startswith(prefix))
        return index + 1


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
    *pieces, last = text.split(separator)
    steps, step, has_text = list[str](), list[str](), False
    for part, end in [*((part, separator) for part in pieces), (last, "")]:
        if has_text and part.strip():
            steps.append("".join(step))
            step = []
        step += [part, end]
        has_text = has_text or bool(part.strip())
    return [*steps, "".join(step)]
