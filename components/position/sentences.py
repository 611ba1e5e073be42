"""Sentence spans of a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from rlcomp.arguments import Checked, NonNegativeInt
from rlcomp.data.positions import Span, Tokenised, byte_spans

# Up to a stop (with closing quotes and brackets) before white space, or up to the end of the line.
_SENTENCE = re.compile(r"""\S.*?(?:[.!?]["')\]\u2019\u201d]*(?=\s)|$)""", re.MULTILINE)


class Sentences(metaclass=Checked):
    """Positions of sentences, or lines without a full stop, with enough text before them.

    Sentences end at ``.``, ``!`` or ``?`` before white space (an abbreviation ends one too), and at
    the end of a line. White space between sentences belongs to none.

    Args:
        min_context: least number of tokens before a sentence.

    Source:
        RLPT's segments, predicted as a whole.
    """

    def __init__(self, *, min_context: NonNegativeInt = 16) -> None:
        self.min_context = min_context

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return each sentence from its first to its last visible character."""
        return [self._spans(document) for document in documents]

    def _spans(self, document: Tokenised) -> list[Span]:
        matches = (match.span() for match in _SENTENCE.finditer(document.text))
        places = [(a, a + len(document.text[a:b].rstrip())) for a, b in matches]
        return [
            span
            for span in byte_spans(document.text, places)
            if bisect_right(document.ends, span.start) >= self.min_context
        ]
