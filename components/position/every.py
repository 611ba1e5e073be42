"""Token positions of a text, without a choice."""

from __future__ import annotations

from collections.abc import Sequence

from rlcomp.arguments import Checked, NonNegativeInt
from rlcomp.data.positions import Span, Tokenised, token_spans


class EveryToken(metaclass=Checked):
    """Positions of all tokens that start a character and have enough text before them.

    Uniform draws from them are random positions.

    Args:
        min_context: least number of tokens before a position.

    Source:
        RPT's random positions, arXiv:2506.08007.
    """

    def __init__(self, *, min_context: NonNegativeInt = 16) -> None:
        self.min_context = min_context

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return spans from a position to the end of the first token that completes a character."""
        return [[*token_spans(document, self.min_context).values()] for document in documents]
