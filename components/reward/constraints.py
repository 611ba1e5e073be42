"""Reward of logic puzzles: an assignment checked against constraints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract, read_json
from rlcomp.verify.columns import column
from rlcomp.verify.constraints import satisfied


class Constraints(TextReward):
    """Reward 1 if the response's values satisfy all constraints, else 0; or the share.

    The answer is a JSON object with a value for each variable. Every solution is right, not only
    the example's. Needs the columns ``variables`` (``{name: [values]}``) and ``constraints``
    (expressions, :func:`rlcomp.verify.constraints.satisfied`). Examples: graph colouring, Sudoku,
    knights and knaves, zebra puzzles.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``constraints``.

    Args:
        where: place of the answer after the thought: ``whole`` or ``tagged``.
        partial: whether the reward is the share of satisfied constraints.

    Raises:
        DataError: an example lacks a column, or a constraint cannot be read.
    """

    name = "constraints"
    needs = ("variables", "constraints")

    def __init__(
        self, *, where: Literal["whole", "tagged"] = "tagged", partial: bool = False
    ) -> None:
        super().__init__()
        self.where = where
        self.partial = partial

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return 1 if the assignment satisfies the constraints, else 0; or the share."""
        variables: Any = column(row, "variables", "reward=constraints")
        constraints: Any = column(row, "constraints", "reward=constraints")
        assignment = read_json(extract(str(row["response"]), self.where))
        share = satisfied(assignment, variables, constraints)
        return share if self.partial else float(share == 1.0)
