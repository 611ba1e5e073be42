"""Special tokens, and their escape in texts.

A special token that a template or a policy writes has no mark. Where a person's text spells a
special token, that part is enclosed in marks (:data:`MARK`) and encoded as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rlcomp.text.token_bytes import encode_continuation, row_bytes, special_ids, token_bytes
from rlcomp.text.tokenizer import encode_all, puts_bos_first

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str]:
    """Return the pattern of a text that spells a special token; it matches the longest token."""
    added = [token for token in tokenizer.added_tokens_decoder.values() if token.special]
    texts = {str(token) for token in added} | {*tokenizer.all_special_tokens}
    pattern = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    # Tokens that are matched in the normalised text may be spelled in capitals.
    ignores_case = any(token.normalized for token in added)
    return re.compile(pattern or r"(?!)", re.IGNORECASE if ignores_case else 0)


# Private-use character. A person's text may contain it: each special token spelled there gets marks
# of its own, so that a token without marks is never from a person.
MARK = "\ue000"


def mark_special_tokens(special: re.Pattern[str], text: str) -> str:
    """Return a person's text, with marks around the parts that spell a special token."""
    return special.sub(lambda match: f"{MARK}{match[0]}{MARK}", text)


class MarkedTextCodec:
    """Conversion of marked texts to ids and back, for a fast tokenizer.

    Examples:
        >>> from rlcomp.text.tokenizer import byte_tokenizer
        >>> texts = MarkedTextCodec(byte_tokenizer())
        >>> texts.encode("a<eos>")[1:], len(texts.encode(texts.mark("a<eos>"))[1:])
        ([1], 5)
        >>> texts.decode([*texts.encode("a"), 1])
        'a<eos>'
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.special = special_tokens(tokenizer)
        self.table = token_bytes(tokenizer)
        self._ids = special_ids(tokenizer)
        self._marked = re.compile(f"{MARK}({self.special.pattern}){MARK}", self.special.flags)
        self._bos = [int(tokenizer.bos_token_id)] if puts_bos_first(tokenizer) else []

    def mark(self, text: str) -> str:
        """Return a person's text, with marks around spelled special tokens."""
        return mark_special_tokens(self.special, text)

    def encode_first(self, text: str) -> list[int]:
        """Return the ids of a text that begins a row, as a model reads prompts; at least one."""
        ids = [*self._bos, *self.encode(text)]
        bos, eos = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        return ids or [int(eos if bos is None else bos)]

    def encode(self, text: str, preceding: str = "") -> list[int]:
        """Return the ids of a marked text that follows the ``preceding`` one; '' if it is first.

        DataError if it holds a character that the tokenizer cannot write.
        """
        # The one group of the pattern makes every second piece a spelled special token.
        pieces = self._marked.split(text)
        pieces_ids = [self._encode_part(pieces[0], preceding)]
        for index in range(1, len(pieces), 2):
            pieces_ids.append(encode_continuation(self.tokenizer, self.table, pieces[index]))
            pieces_ids.append(self._encode_part(pieces[index + 1], pieces[index]))
        return [token for ids in pieces_ids for token in ids]

    def _encode_part(self, text: str, preceding: str) -> list[int]:
        """Return the ids of a text after ``preceding``; a spelled special token is that token."""
        if not text:
            return []
        ends = [
            match for match in self.special.finditer(preceding) if match.end() == len(preceding)
        ]
        if ends:  # after a special token, ids do not depend on the text before it
            return self._encode_special(ends[-1][0] + text)[1:]
        first = self.special.search(text)
        head = text if first is None else text[: first.start()]
        if not preceding:
            return self._encode_special(text)
        ids = encode_continuation(self.tokenizer, self.table, head)
        return ids if first is None else ids + self._encode_special(text[first.start() :])

    def _encode_special(self, text: str) -> list[int]:
        return encode_all(self.tokenizer, [text], split_special_tokens=False)[0]

    def decode(self, ids: Sequence[int]) -> str:
        """Return sampled tokens as marked text; half a character becomes U+FFFD."""
        parts = []
        for special, run in groupby(ids, self._ids.__contains__):
            if special:
                parts += self.tokenizer.convert_ids_to_tokens([*run])
            else:
                parts.append(self.mark(self.decode_plain([*run])))
        return "".join(parts)

    def decode_plain(self, ids: Sequence[int]) -> str:
        """Return sampled tokens as text, without special tokens."""
        return row_bytes(self.table, ids).decode("utf-8", "replace")


def remove_marks(text: str) -> str:
    """Return a text without marks, for display."""
    return text.replace(MARK, "")
