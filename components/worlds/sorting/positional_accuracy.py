"""Share of the answer's characters in the right place."""

from __future__ import annotations

from rlcomp.interfaces.reward import TextReward


class PositionalAccuracy(TextReward):
    """Reward equal to the share of positions at which response and answer agree.

    The share is of the positions of the longer text. It is a graded substitute for human
    preferences: 1 for the answer itself, less for similar texts.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is
    ``share_in_place``. White space around both is ignored; two empty texts score 1.
    """

    name = "share_in_place"

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return the share, from 0 to 1."""
        response, answer = response.strip(), answer.strip()
        longest = max(len(response), len(answer))
        same = sum(x == y for x, y in zip(response, answer, strict=False))
        return same / longest if longest else 1.0
