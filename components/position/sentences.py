"""Sentence spans of a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from rlcomp.arguments import Checked, NonNegativeInt
from rlcomp.data.positions import Span, Tokenised, byte_spans

# Up to a stop (and what closes quotes and brackets) before white space, or the end of the line.
_SENTENCE = re.compile(r"""\S.*?(?:[.!?]["')\]\u2019\u201d]*(?=\s)|$)""", re.MULTILINE)


class Sentences(metaclass=Checked):
    """Every sentence, or line without a full stop, that has enough text before it.

    Sentences end at ``.``, ``!`` or ``?`` before white space, so that an abbreviation ends one, and
    at the end of a line. White space between them belongs to none.

    Args:
        min_context: tokens of the text before a sentence.

    Source:
        RLPT's segments, to be asked for whole.
    """

    def __init__(self, *, min_context: NonNegativeInt = 16) -> None:
        self.min_context = min_context

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Each from its first visible character to its last."""
        return [self._spans(document) for document in documents]

    def _spans(self, document: Tokenised) -> list[Span]:
        found = (match.span() for match in _SENTENCE.finditer(document.text))
        places = [(a, a + len(document.text[a:b].rstrip())) for a, b in found]
        return [
            span
            for span in byte_spans(document.text, places)
            if bisect_right(document.ends, span.start) >= self.min_context
        ]
