"""Reward of the share of an answer's characters at the right positions."""

from __future__ import annotations

from rlcomp.interfaces.reward import TextReward


class PositionalAccuracy(TextReward):
    """Reward equal to the share of positions at which response and answer agree.

    The denominator is the length of the longer text. The reward is a graded substitute for human
    preferences: 1 for the answer itself, less for similar texts. White space around both texts is
    ignored. Two empty texts have the reward 1.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``share_in_place``.
    """

    name = "share_in_place"

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return the share of equal characters, from 0 to 1."""
        response, answer = response.strip(), answer.strip()
        longest = max(len(response), len(answer))
        equal = sum(x == y for x, y in zip(response, answer, strict=False))
        return equal / longest if longest else 1.0
