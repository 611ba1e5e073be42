"""Exact-match reward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import NonEmptyText
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract
from rlcomp.verify.columns import column as column_of


class ExactMatch(TextReward):
    r"""Reward 1 if the response's answer equals the gold one character by character, else 0.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``exact_match``.

    Args:
        where: place of the answer: the ``whole`` response; or after the thought and only once,
            ``boxed`` as ``\boxed{...}`` or ``tagged`` as ``<answer>...</answer>``.
        strip: whether white space around both texts is ignored; around a ``boxed`` or ``tagged``
            answer it always is.
        column: column of the examples with the gold text, such as the only right reasoning
            (``evaluator=coverage``). None: the answer.

    Raises:
        DataError: (when called) an example has no such column.
    """

    name = "exact_match"

    def __init__(
        self,
        *,
        where: Literal["whole", "boxed", "tagged"] = "whole",
        strip: bool = True,
        column: NonEmptyText | None = None,
    ) -> None:
        super().__init__()
        self.where = where
        self.strip = strip
        self.column = column

    @property
    def needed_columns(self) -> frozenset[str]:
        """The column of the gold text, if one is named."""
        return frozenset({self.column} if self.column else ())

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return the score for the answer or the column as the gold text."""
        gold = column_of(row, self.column, "reward=exact_match") if self.column else row["answer"]
        return self.score(str(row["prompt"]), str(row["response"]), str(gold))

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return 1 if both texts are equal, else 0."""
        if self.where != "whole":
            return float(extract(response, self.where) == answer.strip())
        if self.strip:
            response, answer = response.strip(), answer.strip()
        return float(response == answer)
