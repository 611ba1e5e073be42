"""Exact-match reward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import NonEmptyText
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract
from rlcomp.verify.columns import column as column_of


class ExactMatch(TextReward):
    r"""1 if the response's answer is the gold one, character for character, else 0.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``exact_match``.

    Args:
        where: the answer is the ``whole`` response; or it stands behind the thought, ``boxed`` as
            ``\boxed{...}`` or ``tagged`` as ``<answer>...</answer>``, and there is only one.
        strip: ignore white space around both texts; a ``boxed`` or ``tagged`` one never counts.
        column: of the examples, whose text is the gold one, such as the only right reasoning
            (``evaluator=coverage``). None: the answer.

    Raises:
        DataError: when called: an example has no such column.
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
        """The column of the gold text, where it is one."""
        return frozenset({self.column} if self.column else ())

    def score_row(self, row: Mapping[str, object]) -> float:
        """The score against the answer, or against the column."""
        gold = column_of(row, self.column, "reward=exact_match") if self.column else row["answer"]
        return self.score(str(row["prompt"]), str(row["response"]), str(gold))

    def score(self, prompt: str, response: str, answer: str) -> float:
        """1 if both texts are equal, else 0."""
        if self.where != "whole":
            return float(extract(response, self.where) == answer.strip())
        if self.strip:
            response, answer = response.strip(), answer.strip()
        return float(response == answer)
