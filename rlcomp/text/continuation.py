"""Texts that stand behind other tokens, without the space that some tokenizers put in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlcomp.errors import DataError
from rlcomp.text.token_bytes import row_bytes
from rlcomp.text.tokenizer import encode_all

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# What a text is encoded behind, and cut from; the first that no piece joins to the text.
_BEFORE = ("\n", ".", "a", "0")


def encode_continuation(
    tokenizer: PreTrainedTokenizerBase, table: Sequence[bytes], text: str
) -> list[int]:
    """Tokens that stand for a text in the middle of a row; no special token is read in it.

    SentencePiece tokenizers take any text for the beginning of one and put a space in front of it.
    There it is encoded behind another text, whose tokens are taken off.

    Args:
        tokenizer: of the row.
        table: of :func:`rlcomp.text.token_bytes.token_bytes`.
        text: "" is no token.

    Raises:
        DataError: the tokenizer cannot write the text, or not without such a space.
    """
    if not text:
        return []
    (ids,) = encode_all(tokenizer, [text], split_special_tokens=True)
    wanted = text.encode()
    if row_bytes(table, ids) != b" " + wanted:
        return ids
    for before in _BEFORE:
        whole, head = encode_all(tokenizer, [before + text, before], split_special_tokens=True)
        rest = whole[len(head) :]
        if whole[: len(head)] == head and row_bytes(table, rest) == wanted:
            return rest
    raise DataError(f"the tokenizer puts a space in front of {text!r:.60}: use tokenizer=byte")
