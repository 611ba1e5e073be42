"""Sentiment reward by a lexicon (VADER)."""

from __future__ import annotations

from typing import Any

from rlcomp.errors import require
from rlcomp.interfaces.reward import TextReward

_MOST_WORDS = 1000


class Sentiment(TextReward):
    """Reward equal to the sentiment of the response by a lexicon (VADER).

    ``R = s / sqrt(s^2 + 15)`` in (-1, 1), ``s`` the sum of the valences of its words, -4 to 4 each,
    after VADER's rules for negation, degree, capitals and exclamation marks. 0 for a text without a
    word of the lexicon. A positive response is correct. Only the first 1,000 words of a text count,
    because VADER's time grows with the square of the length.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``sentiment``.

    Raises:
        MissingExtra: vaderSentiment is not installed (extra ``sentiment``).

    Source:
        Hutto & Gilbert 2014, ICWSM; as an objective beside length: He et al. 2025,
        arXiv:2508.07768.
    """

    name = "sentiment"
    is_free = True

    def __init__(self) -> None:
        super().__init__()
        vader: Any = require("vaderSentiment.vaderSentiment", "sentiment")
        self.analyzer = vader.SentimentIntensityAnalyzer()

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return VADER's compound score of the response."""
        words = response.split()
        text = response if len(words) <= _MOST_WORDS else " ".join(words[:_MOST_WORDS])
        return float(self.analyzer.polarity_scores(text)["compound"])

    def is_correct(self, score: float) -> bool:
        """Return whether the response is positive."""
        return score > 0
