"""Token ids of a policy's answers, in which no EOS or pad token is spelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlcomp.errors import DataError
from rlcomp.text.tokenizer import encode_all

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def answer_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of a policy's answers, without EOS and pad tokens.

    An answer that spells EOS or the pad token is text: only the builder of a row ends a response.

    Args:
        tokenizer: needs an EOS token.
        texts: the texts.

    Raises:
        DataError: a text holds a character the tokenizer cannot write, or spells EOS or the pad
            token and the tokenizer cannot write that otherwise.
    """
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    rows = encode_all(tokenizer, texts)
    return [
        _encode_spelled_ends(tokenizer, text, ends) if ends & {*row} else row
        for text, row in zip(texts, rows, strict=True)
    ]


def _encode_spelled_ends(
    tokenizer: PreTrainedTokenizerBase, text: str, ends: set[int | None]
) -> list[int]:
    """Encode a text without the ids of an end, at worst character by character."""
    for parts in ([text], [*text]):
        rows = encode_all(tokenizer, parts, split_special_tokens=True)
        ids = [one for row in rows for one in row]
        if not ends & {*ids}:
            return ids
    raise DataError(
        f"the answer {text[:60]!r} spells {tokenizer.eos_token!r} or the pad token, which ends a "
        "response, and the tokenizer has no other tokens for it: delete it from the answer"
    )
