"""Encoding of texts behind other tokens, without the space that some tokenizers put in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlcomp.errors import DataError
from rlcomp.text.token_bytes import row_bytes
from rlcomp.text.tokenizer import encode_all

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# A text is encoded behind the first of these that forms no joint piece with it, and cut from it.
_BEFORE = ("\n", ".", "a", "0")


def encode_continuation(
    tokenizer: PreTrainedTokenizerBase, table: Sequence[bytes], text: str
) -> list[int]:
    """Return tokens of a text in the middle of a row; no special token is read in it.

    SentencePiece tokenizers take any text for the beginning of one and put a space in front of it.
    With them the text is encoded behind another text, and the tokens of the latter are removed.

    Args:
        tokenizer: of the row.
        table: the result of :func:`rlcomp.text.token_bytes.token_bytes`.
        text: "" has no token.

    Raises:
        DataError: the tokenizer cannot write the text, or only with such a space.
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
