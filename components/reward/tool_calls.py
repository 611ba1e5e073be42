"""Tool-call reward (BFCL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.columns import column
from rlcomp.verify.tool_calls import tool_match


class ToolCalls(TextReward):
    """Reward 1 if the response calls the gold tools with gold arguments, else 0.

    The order of calls does not matter. Needs the column ``ground_truth`` of BFCL: a list of
    ``{name: {parameter: alternatives}}``, empty if no call is right.
    :func:`rlcomp.verify.tool_calls.tool_match` compares the calls.

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
        """Return 1 if the calls are the gold ones, else 0."""
        gold: Any = column(row, "ground_truth", "reward=tool_calls")
        return tool_match(str(row["response"]), gold)
