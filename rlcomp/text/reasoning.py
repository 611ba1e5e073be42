"""Thoughts (chain of thought): end detection, and rows that score a target after them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.batch import decode_texts
from rlcomp.errors import DataError
from rlcomp.text.answer_ids import answer_ids
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.token_bytes import row_bytes, token_bytes
from rlcomp.text.tokenizer import encode_all, encode_prompts


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

    Token boundaries need not match the text: the token that completes it belongs to the thought. A
    special token counts as the text only if the tokenizer writes the text as that token.

    Args:
        tokenizer: the policy's, a fast one.
        text: ``"</think>"`` or the like.

    Raises:
        DataError: the tokenizer cannot write the text.

    Examples:
        >>> from rlcomp.text.tokenizer import character_tokenizer
        >>> end = ThoughtEnd(character_tokenizer(characters="ab/"), "/")
        >>> end.ids, end.length([2, 3, 4, 2, 4]), end.length([2, 3])
        ([4], 3, None)
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, text: str) -> None:
        (self.ids,) = encode_all(tokenizer, [text])
        self.text = text.encode()
        self._table = token_bytes(tokenizer)
        if len(self.ids) == 1:
            self._table[self.ids[0]] = self.text
        self._eos = int(tokenizer.eos_token_id)

    def bytes_of(self, response: Sequence[int]) -> bytes:
        """Return the bytes of a response, in which the end is searched."""
        return row_bytes(self._table, response)

    def length(self, response: Sequence[int]) -> int | None:
        """Return the length of the thought in tokens, end included; None without an end."""
        place = self.bytes_of(response).find(self.text)
        if place < 0:
            return None
        ends = list(accumulate(len(self._table[token]) for token in response))
        return bisect_left(ends, place + len(self.text)) + 1

    def closed(self, response: Sequence[int]) -> list[int]:
        """Return the thought of a response; without an end: all of it, with the end appended."""
        length = self.length(response)
        if length is not None:
            return list(response[:length])
        open_end = response[:-1] if response and response[-1] == self._eos else response
        return [*open_end, *self.ids]


def responses(batch: TensorDict) -> tuple[list[list[int]], Tensor]:
    """Return the responses of a batch, including tokens in the holes of their masks.

    Args:
        batch: holds ``tokens`` and ``response_mask``, shape ``[B, T]``.

    Returns:
        Token ids of each row, and the column in which they start, shape ``[B]``, int64; ``T`` for
        rows without a response.
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

    Args:
        tokenizer: encodes.
        batch: holds ``answer`` and ``answer_ends``, shape ``[B, W]``.
        num_tokens: at least 1.

    Returns:
        Token ids of each row; none where the answer is empty.

    Raises:
        DataError: the tokenizer cannot write an answer.
    """
    rows = zip(decode_texts(batch["answer"]), batch["answer_ends"].tolist(), strict=True)
    return answer_ids(tokenizer, [leading(answer, ends, num_tokens) for answer, ends in rows])


def leading(answer: str, ends: Sequence[bool], count: int) -> str:
    """Return the prefix of an answer up to its ``count``-th token end (or the last).

    Args:
        answer: a text.
        ends: for each byte, whether a token ends with it. The prefix has whole characters.
        count: at least 1.

    Examples:
        >>> leading("né!", [True, True, False, True], 1), leading("né!", [True, True], 2)
        ('n', 'né')
    """
    raw = answer.encode()
    places = [byte + 1 for byte, end in enumerate(ends) if end][:count]
    size = places[-1] if places else 0
    while size < len(raw) and raw[size] & 0b1100_0000 == 0b1000_0000:  # inside a character
        size += 1
    return raw[:size].decode()


def rows_after_thought(
    tokenizer: PreTrainedTokenizerBase,
    batch: TensorDict,
    targets: Sequence[Sequence[int]],
    end: ThoughtEnd,
) -> TensorDict:
    """Build rows of prompt, thought and target.

    Args:
        tokenizer: the policy's.
        batch: holds ``tokens``, ``attention_mask`` and ``response_mask``, shape ``[B, T]``.
        targets: token ids of each row.
        end: of the thought.

    Returns:
        On the CPU: ``tokens``, ``attention_mask``, ``response_mask`` (the target), ``[B, T']``.
    """
    answers, starts = responses(batch)
    lengths = torch.minimum(starts, batch["attention_mask"].sum(1)).tolist()
    rows = zip(batch["tokens"].tolist(), lengths, answers, strict=True)
    heads = [row[:length] + end.closed(answer) for row, length, answer in rows]
    return rows_from_ids(tokenizer, heads, targets)


def rows_without_thought(
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    targets: Sequence[Sequence[int]],
    think_start: str,
) -> TensorDict:
    """Build rows of context and target: prompts without the text that starts a thought.

    Args:
        tokenizer: the policy's.
        prompts: ``B`` texts, as the policy reads them.
        targets: token ids of each row.
        think_start: the end of each prompt.

    Returns:
        As :func:`rows_after_thought`.

    Raises:
        DataError: a prompt does not end with ``think_start``.

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
