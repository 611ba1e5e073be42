"""Brevity reward, which falls linearly with the response length."""

from __future__ import annotations

from rlcomp.arguments import PositiveInt
from rlcomp.interfaces.reward import TextReward


class Brevity(TextReward):
    """Brevity reward.

    ``R = max(0, 1 - characters / longest)``: 1 for an empty response, 0 from ``longest`` characters
    on.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``brevity``.

    Args:
        longest: characters from which on the reward is 0.

    Examples:
        >>> Brevity(longest=8).score("", "12", "")
        0.75
    """

    name = "brevity"
    is_free = True

    def __init__(self, *, longest: PositiveInt) -> None:
        super().__init__()
        self.longest = longest

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return ``max(0, 1 - characters / longest)``."""
        return max(0.0, 1.0 - len(response) / self.longest)
