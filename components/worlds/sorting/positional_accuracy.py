"""Share of the answer's characters that stand where they belong."""

from __future__ import annotations

from rlcomp.interfaces.reward import TextReward


class ShareInPlace(TextReward):
    """Share of positions at which response and answer agree; of the longer of the two.

    A graded stand-in for what people like: 1 for the answer itself, less for what resembles it.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is
    ``share_in_place``. White space around both is ignored; of two empty texts it is 1.
    """

    name = "share_in_place"

    def score(self, prompt: str, response: str, answer: str) -> float:
        """The share, from 0 to 1."""
        response, answer = response.strip(), answer.strip()
        longest = max(len(response), len(answer))
        same = sum(x == y for x, y in zip(response, answer, strict=False))
        return same / longest if longest else 1.0
