"""Symbolic verifier of mathematical answers (math-verify)."""

from __future__ import annotations

from typing import Literal

from rlcomp.arguments import NonNegativeInt
from rlcomp.errors import require
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.symbolic import symbolic


class Symbolic(TextReward):
    r"""1 if the response's answer is mathematically equal to the gold one, else 0.

    What is equal, and what is refused before it is looked at, is told at
    :func:`rlcomp.verify.symbolic.symbolic`. A gold answer that cannot be read makes the row
    invalid.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``symbolic``.

    Args:
        where: the answer stands behind the thought, ``boxed`` as ``\boxed{...}`` or ``tagged`` as
            ``<answer>...</answer>``; ``anywhere`` is for evaluation alone, because a policy that is
            trained on it learns to scatter numbers.
        decimals: to which decimal fractions are rounded before they are compared.

    Raises:
        MissingExtra: math-verify is not installed (extra ``verify``).

    Source:
        math-verify 0.9 (Kydlíček, Hugging Face), Apache-2.0.
    """

    name = "symbolic"

    def __init__(
        self,
        *,
        where: Literal["boxed", "tagged", "anywhere"] = "boxed",
        decimals: NonNegativeInt = 6,
    ) -> None:
        super().__init__()
        require("math_verify", "verify")
        self.where = where
        self.decimals = decimals

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """1 if both answers are equal, else 0; None if the gold one cannot be read."""
        return symbolic(response, answer, where=self.where, decimals=self.decimals)
