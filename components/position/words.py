"""Random word spans of a text."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from rlcomp.arguments import Checked, NonNegativeInt, PositiveInt, Probability
from rlcomp.data.masked_text import span_problem
from rlcomp.data.positions import Span, Tokenised, byte_spans
from rlcomp.errors import ConfigError
from rlcomp.seed import named_seed


class WordSpan(metaclass=Checked):
    """Positions of random spans of whole words, without white space at their ends.

    Each span may be masked (:func:`~rlcomp.data.masked_text.span_problem`). Spans may overlap, and
    the words of a span may occur elsewhere too. The spans of a text depend on the text and the seed
    alone.

    Args:
        shortest: words of the shortest span; words are separated by white space.
        longest: words of the longest span.
        per_document: spans per text, fewer if it has fewer.
        largest_share: largest share of the text's characters in a span.
        seed: seed of the choice.

    Raises:
        ConfigError: ``shortest`` is above ``longest``.

    Source:
        PretrainZero's random spans, arXiv:2512.03442; the bounds are ours.
    """

    def __init__(
        self,
        *,
        shortest: PositiveInt = 1,
        longest: PositiveInt = 8,
        per_document: PositiveInt = 8,
        largest_share: Probability = 0.2,
        seed: NonNegativeInt = 0,
    ) -> None:
        if shortest > longest:
            raise ConfigError(
                f"WordSpan: shortest is {shortest}: must be at most longest, {longest}"
            )
        self.shortest = shortest
        self.longest = longest
        self.per_document = per_document
        self.largest_share = largest_share
        self.seed = seed

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return the spans of each text, in text order."""
        return [self._spans(document.text) for document in documents]

    def _spans(self, text: str) -> list[Span]:
        fit = (
            (start, stop)
            for start, stop in self._drawn(text)
            if not span_problem(
                text,
                text[start:stop],
                longest_words=self.longest,
                largest_share=self.largest_share,
            )
        )
        return byte_spans(text, sorted(islice(fit, self.per_document)))

    def _drawn(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield all spans of a number of words in random order, as character offsets."""
        words = [match.span() for match in re.finditer(r"\S+", text)]
        counts = range(self.shortest, self.longest + 1)
        draw = random.Random(named_seed(self.seed, text))
        for number in draw.sample(range(len(words) * len(counts)), len(words) * len(counts)):
            first, which = divmod(number, len(counts))
            last = first + counts[which] - 1
            if last < len(words):
                yield words[first][0], words[last][1]
