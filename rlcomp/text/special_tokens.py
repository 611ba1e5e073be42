"""Special tokens of a tokenizer: their ids, and the pattern of texts that spell them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Return the ids of special tokens: those with a role, such as EOS, and those added as special.

    Examples:
        >>> from rlcomp.text.tokenizer import character_tokenizer
        >>> sorted(special_ids(character_tokenizer(characters="ab")))
        [0, 1]
    """
    added = tokenizer.added_tokens_decoder.items()
    return {*tokenizer.all_special_ids} | {index for index, token in added if token.special}


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str]:
    """Return the pattern of texts that spell a special token; the longest first."""
    added = [token for token in tokenizer.added_tokens_decoder.values() if token.special]
    texts = {str(token) for token in added} | {*tokenizer.all_special_tokens}
    either = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    # Tokens that are matched in the normalised text may be spelled in capitals.
    loose = any(token.normalized for token in added)
    return re.compile(either or r"(?!)", re.IGNORECASE if loose else 0)
