"""Patch-similarity reward (SWE-RL)."""

from __future__ import annotations

from typing import Literal

from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract
from rlcomp.verify.patch import patch_similarity


class PatchSimilarity(TextReward):
    """Similarity of the response's patch and the true one, in [0, 1]; -1 without a patch.

    ``R = 2 M / T``, ``M`` the characters in matching blocks, ``T`` those of both.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is
    ``patch_similarity``. The answer is the true patch; an empty one makes the row invalid.

    Args:
        where: the patch is the ``whole`` response behind the thought, or ``tagged``.

    Source:
        Wei et al. 2025 (SWE-RL), arXiv:2502.18449, eq. 1.
    """

    name = "patch_similarity"

    def __init__(self, *, where: Literal["whole", "tagged"] = "tagged") -> None:
        super().__init__()
        self.where = where

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """The similarity; None if there is no true patch."""
        if not answer.strip():
            return None
        return patch_similarity(extract(response, self.where), answer)
