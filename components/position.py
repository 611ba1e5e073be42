"""Positions at which next tokens are predicted."""

from __future__ import annotations

import math
import random
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice

from transformers import PreTrainedModel

from rlcomp.arguments import Checked, NonEmptyText, NonNegativeInt, PositiveInt, Probability
from rlcomp.data.masked_text import span_problem
from rlcomp.data.spans import Span, Tokenised, byte_spans, token_spans
from rlcomp.errors import ConfigError
from rlcomp.model.next_token import next_token_entropies
from rlcomp.run.launch import device as device_of
from rlcomp.seed import named_seed


class EveryToken(metaclass=Checked):
    """Positions of all tokens that start a character and have enough text before them.

    Uniform draws from these positions are RPT's random positions.

    Args:
        min_context: least number of tokens before a position.

    Source:
        RPT, arXiv:2506.08007: random positions.
    """

    def __init__(self, *, min_context: NonNegativeInt = 16) -> None:
        self.min_context = min_context

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return spans from a position to the end of the first token that completes a character."""
        return [[*token_spans(document, self.min_context).values()] for document in documents]


class WordSpans(metaclass=Checked):
    """Positions of random spans of whole words, without white space at their ends.

    Every span can be masked (:func:`~rlcomp.data.masked_text.span_problem`). Spans may overlap, and
    the words of a span may occur elsewhere in the text. The spans of a text depend only on the text
    and the seed.

    Args:
        shortest: number of words of the shortest span; words are separated by white space.
        longest: number of words of the longest span.
        per_document: largest number of spans of a text.
        largest_share: largest share of the text's characters in a span.
        seed: seed of the random choice.

    Raises:
        ConfigError: ``shortest`` is above ``longest``.

    Source:
        PretrainZero, arXiv:2512.03442: random spans. The bounds are this project's.
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
                f"WordSpans: shortest is {shortest}: must be at most longest, {longest}"
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
        spans = (
            (start, stop)
            for start, stop in self._candidates(text)
            if not span_problem(
                text,
                text[start:stop],
                longest_words=self.longest,
                largest_share=self.largest_share,
            )
        )
        return byte_spans(text, sorted(islice(spans, self.per_document)))

    def _candidates(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield all spans of ``shortest`` to ``longest`` words in random order, as offsets."""
        words = [match.span() for match in re.finditer(r"\S+", text)]
        counts = range(self.shortest, self.longest + 1)
        draw = random.Random(named_seed(self.seed, text))
        # A sample of all numbers is a random order; a number stands for a first word and a count.
        for number in draw.sample(range(len(words) * len(counts)), len(words) * len(counts)):
            first, count_index = divmod(number, len(counts))
            last = first + counts[count_index] - 1
            if last < len(words):
                yield words[first][0], words[last][1]


# A sentence ends at a stop (with closing quotes and brackets) before white space, or with the line.
_SENTENCE = re.compile(r"""\S.*?(?:[.!?]["')\]\u2019\u201d]*(?=\s)|$)""", re.MULTILINE)


class Sentences(metaclass=Checked):
    """Positions of sentences, and of lines without a full stop, with enough text before them.

    Sentences end at ``.``, ``!`` or ``?`` before white space and at the end of a line. The dot of
    an abbreviation ends a sentence, too. White space between sentences belongs to no sentence.

    Args:
        min_context: least number of tokens before a sentence.

    Source:
        Li et al. 2025 (RLPT), arXiv:2509.19249: segments that are predicted as a whole.
    """

    def __init__(self, *, min_context: NonNegativeInt = 16) -> None:
        self.min_context = min_context

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return each sentence from its first to its last visible character."""
        return [self._spans(document) for document in documents]

    def _spans(self, document: Tokenised) -> list[Span]:
        matches = (match.span() for match in _SENTENCE.finditer(document.text))
        bounds = [(a, a + len(document.text[a:b].rstrip())) for a, b in matches]
        return [
            span
            for span in byte_spans(document.text, bounds)
            if bisect_right(document.ends, span.start) >= self.min_context
        ]


class PatternMatches(metaclass=Checked):
    r"""Positions at which a pattern matches.

    Args:
        pattern: one or several regular expressions whose group 1 is the span, such as ``=(\d)``.
            Empty matches are skipped. ``^`` and ``$`` match at the ends of the whole text; after
            ``(?m)`` they match at the ends of lines. Matches of one pattern do not overlap. Groups
            of a look-ahead, ``(?=(\w\w))``, and groups of two patterns may overlap.

    Raises:
        ConfigError: there is no pattern, or a pattern is no regular expression or has no group.
    """

    def __init__(self, *, pattern: NonEmptyText | Sequence[NonEmptyText]) -> None:
        patterns = [pattern] if isinstance(pattern, str) else list(pattern)
        if not patterns:
            raise ConfigError("PatternMatches: pattern is an empty list: give a regular expression")
        self._expressions = [_compile(expression) for expression in patterns]
        self.pattern = pattern

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return group 1 of every match."""
        return [self._spans(document.text) for document in documents]

    def _spans(self, text: str) -> list[Span]:
        matches = (match for pattern in self._expressions for match in pattern.finditer(text))
        return byte_spans(text, sorted(match.span(1) for match in matches if match[1]))


def _compile(pattern: str) -> re.Pattern[str]:
    """Return the regular expression; refuse one without a group."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"PatternMatches: pattern {pattern!r} is no regular expression: {error}"
        ) from None
    if compiled.groups < 1:
        raise ConfigError(
            f"PatternMatches: pattern {pattern!r} has no group: put the span in parentheses, "
            r"as in '=(\d)'"
        )
    return compiled


class EntropyFilter(metaclass=Checked):
    """RPT's entropy filter: positions of high next-token entropy under a proxy model.

    Args:
        proxy: a causal language model with the tokenizer of the policy; it is not trained.
        top_k: number of most likely tokens over which the entropy is computed.
        threshold: positions have an entropy above this value, nats. Null: ``top_share`` decides.
        top_share: share of the positions of all texts with the highest entropy, ties included.
            Null: ``threshold`` decides.
        renormalise: whether the probabilities of the ``top_k`` tokens are scaled to sum 1.
        min_context: least number of tokens before a position.
        device: device of the proxy while it reads the texts: ``auto``, ``cpu`` or ``cuda``;
            afterwards it moves back.

    Raises:
        ConfigError: both or none of ``threshold`` and ``top_share`` are given, or (in
            :meth:`spans`) the proxy has another tokenizer.
        DataError: (in :meth:`spans`) a text is longer than the proxy's context.

    Source:
        RPT, arXiv:2506.08007: top 16, and thresholds of 0.5, 1.0 and 1.5 for easy, medium and hard
        positions. The default threshold and ``renormalise`` are this project's.
    """

    def __init__(
        self,
        *,
        proxy: PreTrainedModel,
        top_k: PositiveInt = 16,
        threshold: float | None = 1.0,
        top_share: Probability | None = None,
        renormalise: bool = True,
        min_context: PositiveInt = 16,
        device: NonEmptyText = "auto",
    ) -> None:
        if (threshold is None) == (top_share is None):
            raise ConfigError(
                f"EntropyFilter: threshold is {threshold} and top_share is {top_share}: set "
                "exactly one of them to null"
            )
        self.proxy = proxy
        self.top_k = top_k
        self.threshold = threshold
        self.top_share = top_share
        self.renormalise = renormalise
        self.min_context = min_context
        self.device = device

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return spans from a position to the end of the first token that completes a character."""
        entropies = next_token_entropies(
            self.proxy,
            [document.ids for document in documents],
            top_k=self.top_k,
            renormalise=self.renormalise,
            device=device_of(self.device),
        )
        candidates = [
            [
                (span, float(entropy[index]))
                for index, span in token_spans(document, self.min_context).items()
            ]
            for entropy, document in zip(entropies, documents, strict=True)
        ]
        minimum = self._minimum([entropy for spans in candidates for _, entropy in spans])
        return [[span for span, entropy in spans if entropy >= minimum] for spans in candidates]

    def _minimum(self, entropies: list[float]) -> float:
        """Return the least entropy of a position, nats."""
        if self.threshold is not None:
            # :meth:`spans` compares with >=, and a position must be above the threshold.
            return math.nextafter(self.threshold, math.inf)
        # The product of share and count may miss a whole number by a rounding error.
        count = math.ceil((self.top_share or 0.0) * len(entropies) - 1e-9)
        return sorted(entropies, reverse=True)[count - 1] if count else math.inf
