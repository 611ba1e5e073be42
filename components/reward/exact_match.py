"""Exact-match reward."""

from __future__ import annotations

from rlcomp.interfaces.reward import TextReward


class ExactMatch(TextReward):
    """1 if the response is the answer, character for character, else 0.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``exact_match``.

    Args:
        strip: ignore white space around both texts.
    """

    name = "exact_match"

    def __init__(self, *, strip: bool = True) -> None:
        super().__init__()
        self.strip = strip

    def score(self, prompt: str, response: str, answer: str) -> float:
        """1 if both texts are equal, else 0."""
        if self.strip:
            response, answer = response.strip(), answer.strip()
        return float(response == answer)
