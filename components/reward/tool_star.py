"""Tool-Star reward of form, answer and use of several tools."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from rlcomp.arguments import NonNegativeFloat
from rlcomp.interfaces.fact_reward import FactReward, facts_of
from rlcomp.interfaces.scores import Score
from rlcomp.verify.answers import extract
from rlcomp.verify.columns import gold_answers
from rlcomp.verify.short_answer import short_answer


class ToolStar(FactReward):
    """Tool-Star reward: -1 for a wrong form, 0 for a wrong answer, 1 or more for a right one.

    The form is wrong if a turn was malformed or the last one has no answer in the agreed place. A
    right answer also earns ``bonus`` if two different tools returned a result; a call without a
    result does not count. ``correct`` depends on the answer alone.

    Reads and writes: see :class:`rlcomp.interfaces.fact_reward.FactReward`; the parts are
    ``accuracy``, ``form`` (-1 or 0) and ``tools`` (1 if the bonus is earned), so that the reward
    is recorded with and without the bonus. Facts: those of ``environment=tools``.

    Args:
        bonus: reward for two different tools.
        where: place of the answer: ``tagged``, ``boxed`` or the ``whole`` last turn.

    Source:
        Dong et al. 2025 (Tool-Star), arXiv:2505.16410, section 3.3.
    """

    name = "tool_star"
    correct_by = "accuracy"
    facts_read = ("malformed", "tools_used")

    def __init__(
        self,
        *,
        bonus: NonNegativeFloat = 0.1,
        where: Literal["whole", "boxed", "tagged"] = "tagged",
    ) -> None:
        super().__init__()
        self.weights = MappingProxyType({"accuracy": 1.0, "form": 1.0, "tools": bonus})
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> Score:
        """Return the scores of form, accuracy and use of tools."""
        gold = gold_answers(row)
        if not gold:
            return None
        answer, facts = extract(str(row["response"]), self.where), facts_of(row)
        if answer is None or facts["malformed"] > 0:
            return {"accuracy": 0.0, "form": -1.0, "tools": 0.0}
        right = short_answer(answer, gold, metric="exact")
        several = right == 1.0 and facts["tools_used"] >= 2
        return {"accuracy": right, "form": 0.0, "tools": float(several)}
