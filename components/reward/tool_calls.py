"""Tool-call reward (BFCL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.columns import column
from rlcomp.verify.tool_calls import tool_match


class ToolCalls(TextReward):
    """1 if the response calls the gold tools with gold arguments, in any order, else 0.

    Needs the column ``ground_truth`` of BFCL: a list of ``{name: {parameter: alternatives}}``, an
    empty one where calling nothing is right. What is read and what counts as equal is told at
    :func:`rlcomp.verify.tool_calls.tool_match`.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``tool_calls``.

    Raises:
        DataError: an example has no ``ground_truth``.

    Source:
        Patil et al. 2025, the Berkeley Function Calling Leaderboard (AST evaluation).
    """

    name = "tool_calls"
    needs = ("ground_truth",)

    def __init__(self) -> None:
        super().__init__()

    def score_row(self, row: Mapping[str, object]) -> float:
        """1 if the calls are the gold ones, else 0."""
        gold: Any = column(row, "ground_truth", "reward=tool_calls")
        return tool_match(str(row["response"]), gold)
