"""Final-number verifier (GSM8K)."""

from __future__ import annotations

from typing import Literal

from rlcomp.arguments import NonNegativeFloat
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.number import numeric


class Numeric(TextReward):
    r"""1 if the number that a response commits itself to is the answer's, else 0.

    ``|given - gold| <= max(absolute, relative * |gold|)``.

    What is read is told at :func:`rlcomp.verify.number.committed_number`: several different numbers
    (``6 or 7``, ``x=6=7``) are no answer. Gold answers are read in the same way, so a whole worked
    solution may stand there. An answer without a number makes the row invalid.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``numeric``.

    Args:
        where: ``marked``: in a box, in tags or behind ``####``, ``A:`` or ``answer is``; ``last``:
            without one of these the last number of the response counts.
        absolute: largest difference that still counts as equal.
        relative: the same, as a share of the gold number.

    Source:
        The task: Cobbe et al. 2021, arXiv:2110.14168.
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
        """1 if both numbers are equal, else 0; None if the answer has none."""
        return numeric(
            response,
            answer,
            where=self.where,
            absolute=self.absolute,
            relative=self.relative,
        )
