"""Special tokens of a tokenizer: their ids, and where a text spells one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The ids of special tokens: those with a role, such as EOS, and those that were added as such.

    Examples:
        >>> from rlcomp.text.tokenizer import character_tokenizer
        >>> sorted(special_ids(character_tokenizer(characters="ab")))
        [0, 1]
    """
    added = tokenizer.added_tokens_decoder.items()
    return {*tokenizer.all_special_ids} | {index for index, token in added if token.special}


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str]:
    """What spells a special token; the longest first."""
    added = [token for token in tokenizer.added_tokens_decoder.values() if token.special]
    texts = {str(token) for token in added} | {*tokenizer.all_special_tokens}
    either = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    # Those that are sought in the normalised text may be spelled in capitals.
    loose = any(token.normalized for token in added)
    return re.compile(either or r"(?!)", re.IGNORECASE if loose else 0)
