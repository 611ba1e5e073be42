"""Patch-similarity reward (SWE-RL)."""

from __future__ import annotations

from typing import Literal

from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract
from rlcomp.verify.edits import patch_similarity


class PatchSimilarity(TextReward):
    """Reward equal to the similarity of the response's patch and the true one; -1 without one.

    ``R = 2 M / T`` in [0, 1], with ``M`` characters in matching blocks and ``T`` characters of both
    patches.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is
    ``patch_similarity``. The answer is the true patch; an empty one makes the row invalid.

    Args:
        where: place of the patch after the thought: ``whole`` or ``tagged``.

    Source:
        Wei et al. 2025 (SWE-RL), arXiv:2502.18449, eq. 1.
    """

    name = "patch_similarity"

    def __init__(self, *, where: Literal["whole", "tagged"] = "tagged") -> None:
        super().__init__()
        self.where = where

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return the similarity; None if there is no true patch."""
        if not answer.strip():
            return None
        return patch_similarity(extract(response, self.where), answer)
