"""Final-number verifier (GSM8K)."""

from __future__ import annotations

from typing import Literal

from rlcomp.arguments import NonNegativeFloat
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.number import numeric


class Numeric(TextReward):
    r"""Reward 1 if the number that the response commits to equals the answer's, else 0.

    ``|given - gold| <= max(absolute, relative * |gold|)``.

    :func:`rlcomp.verify.number.committed_number` reads the number. Several different numbers
    (``6 or 7``, ``x=6=7``) are no answer. Gold answers are read in the same way, so that they may
    be whole solutions. A gold answer without a number makes the row invalid.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``numeric``.

    Args:
        where: ``marked``: in a box, in tags or after ``####``, ``A:`` or ``answer is``; ``last``:
            without one of these, the last number of the response.
        absolute: largest difference of equal numbers.
        relative: the same, as a share of the gold number.

    Source:
        Cobbe et al. 2021, arXiv:2110.14168 (the task).
    """

    name = "numeric"

    def __init__(
        self,
        *,
        where: Literal["marked", "last"] = "marked",
        absolute: NonNegativeFloat = 1e-6,
        relative: NonNegativeFloat = 0.0,
    ) -> None:
        super().__init__()
        self.where = where
        self.absolute = absolute
        self.relative = relative

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return 1 if both numbers are equal, else 0; None if the answer has none."""
        return numeric(
            response,
            answer,
            where=self.where,
            absolute=self.absolute,
            relative=self.relative,
        )
