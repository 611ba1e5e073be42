"""Tool-Star reward: form first, then the answer, then several tools."""

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
    """-1 for a wrong form, 0 for a wrong answer, 1 for a right one, more with several tools.

    The form is wrong if a turn was malformed or the last one gives no answer in the agreed place.
    A right answer earns ``bonus`` besides if two different tools told something; a call that told
    nothing is no use of a tool. ``correct`` is the answer alone.

    Reads and writes: see :class:`rlcomp.interfaces.fact_reward.FactReward`; the parts are
    ``accuracy``, ``form`` (-1 or 0) and ``tools`` (1 where the bonus is earned), so that the reward
    is seen with the bonus and without. Facts: those of ``environment=tools``.

    Args:
        bonus: of two different tools.
        where: the answer is ``tagged``, ``boxed`` or the ``whole`` of the last turn.

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
        """Form, accuracy and use of tools."""
        gold = gold_answers(row)
        if not gold:
            return None
        given, facts = extract(str(row["response"]), self.where), facts_of(row)
        if given is None or facts["malformed"] > 0:
            return {"accuracy": 0.0, "form": -1.0, "tools": 0.0}
        right = short_answer(given, gold, metric="exact")
        several = right == 1.0 and facts["tools_used"] >= 2
        return {"accuracy": right, "form": 0.0, "tools": float(several)}
