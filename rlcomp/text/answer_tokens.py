"""Token ids of answers, in which no token ends the response too early."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rlcomp.errors import DataError
from rlcomp.text.tokenizer import encode_all

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Ids that end a response, by the policy's tokenizer: a policy may stop at other tokens than EOS.
_STOPS: WeakKeyDictionary[Any, frozenset[int]] = WeakKeyDictionary()


def answer_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of a policy's answers, without any token that ends the response.

    An answer that spells EOS or the pad token is text: only the builder of a row ends a response.
    The same holds for another stop token of a policy (:func:`note_stops`), except at the end of the
    answer, where a turn ends.

    Raises:
        DataError: the tokenizer cannot write a character of a text, or can write the spelling of a
            token that ends a response only as that token.
    """
    rows = encode_all(tokenizer, texts)
    return [
        _encode_spelled_ends(tokenizer, text) if _early_ends(tokenizer, row) else row
        for text, row in zip(texts, rows, strict=True)
    ]


def note_stops(tokenizer: PreTrainedTokenizerBase, stops: Iterable[int]) -> None:
    """Register the stop ids of a policy with this tokenizer: no answer has one in its middle."""
    _STOPS[tokenizer] = _STOPS.get(tokenizer, frozenset()) | frozenset(stops)


def _early_ends(tokenizer: PreTrainedTokenizerBase, row: Sequence[int]) -> set[int]:
    """Return the ids of an answer that end it too early."""
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    return ends & {*row} | _STOPS.get(tokenizer, frozenset()) & {*row[:-1]}


def _encode_spelled_ends(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Encode a text without the ids of an end, character by character if necessary."""
    for parts in ([text], [*text]):
        rows = encode_all(tokenizer, parts, split_special_tokens=True)
        ids = [token for row in rows for token in row]
        if not (ends := _early_ends(tokenizer, ids)):
            return ids
    token = tokenizer.convert_ids_to_tokens(min(ends))
    raise DataError(
        f"the answer {text[:60]!r} spells {token!r}, which ends a response, and the tokenizer has "
        "no other tokens for it: delete it from the answer, or from policy.stop_tokens"
    )
