"""Exact-match reward."""

from __future__ import annotations

from typing import Literal

from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract


class ExactMatch(TextReward):
    r"""1 if the response's answer is the gold one, character for character, else 0.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``exact_match``.

    Args:
        where: the answer is the ``whole`` response; or it stands behind the thought, ``boxed`` as
            ``\boxed{...}`` or ``tagged`` as ``<answer>...</answer>``, and there is only one.
        strip: ignore white space around both texts; a ``boxed`` or ``tagged`` one never counts.
    """

    name = "exact_match"

    def __init__(
        self, *, where: Literal["whole", "boxed", "tagged"] = "whole", strip: bool = True
    ) -> None:
        super().__init__()
        self.where = where
        self.strip = strip

    def score(self, prompt: str, response: str, answer: str) -> float:
        """1 if both texts are equal, else 0."""
        if self.where != "whole":
            return float(extract(response, self.where) == answer.strip())
        if self.strip:
            response, answer = response.strip(), answer.strip()
        return float(response == answer)
