"""Rewards of responses with tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from rlcomp.arguments import NonNegativeFloat
from rlcomp.interfaces.fact_reward import FactReward, facts_of
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.scores import Score
from rlcomp.verify.answers import column, extract, gold_answers
from rlcomp.verify.short_answer import short_answer
from rlcomp.verify.tool_match import tool_match


class ToolCalls(TextReward):
    """Reward 1 if the response calls the gold tools with gold arguments, else 0.

    The order of calls does not matter. Needs the column ``ground_truth`` of BFCL: a list of
    ``{name: {parameter: alternatives}}``, empty if no call is right.
    :func:`rlcomp.verify.tool_match.tool_match` compares the calls.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``tool_calls``.

    Raises:
        DataError: an example has no ``ground_truth``.

    Source:
        Patil et al. 2025, the Berkeley Function Calling Leaderboard (AST evaluation).
    """

    name = "tool_calls"
    needs = ("ground_truth",)

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return 1 if the calls are the gold ones, else 0."""
        gold: Any = column(row, "ground_truth", "reward=tool_calls")
        return tool_match(str(row["response"]), gold)


class ToolStar(FactReward):
    """Tool-Star reward: -1 for a wrong form, 0 for a wrong answer, 1 or more for a right one.

    The form is wrong if a turn was malformed or the last one has no answer at ``where``. A
    right answer also earns ``bonus`` if two different tools returned a result; a call without a
    result does not count. ``correct`` depends on form and answer, not on the bonus. A row with
    blank gold answers only is invalid.

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
        earns_bonus = right == 1.0 and facts["tools_used"] >= 2
        return {"accuracy": right, "form": 0.0, "tools": float(earns_bonus)}


class AutoRefine(FactReward):
    """AutoRefine reward: F1 of the answer, and a small reward if only the notes contain it.

    ``f`` is the F1 of the answer, ``h`` is 1 if the notes hold the gold answer, and ``w`` is the
    weight of notes. ``gated``: ``R = max(f, w)`` if ``f > 0``, else ``w h``; ``product``:
    ``R = f h``; ``sum``: ``R = f + w h``. In the paper's ``gated``, an answer that shares a word
    with the gold one may earn less than a wrong one with good notes; the maximum corrects that. An
    answer is right if its words are the gold ones; notes do not matter for that. A row with
    blank gold answers only is invalid.

    Reads and writes: see :class:`rlcomp.interfaces.fact_reward.FactReward`; the parts are
    ``reward`` (the combination), ``exact``, ``f1`` and ``noted``. Whether the notes hold the answer
    is a fact of the environment (``environment=tools environment.notes=refine``).

    Args:
        combine: ``gated``, ``product`` or ``sum``.
        note_weight: ``w``, weight of the notes.
        where: place of the answer: ``tagged``, ``boxed`` or the ``whole`` last turn.

    Source:
        Shi et al. 2025, arXiv:2505.11277, section 3.
    """

    name = "reward"
    weights = {"reward": 1.0, "exact": 0.0, "f1": 0.0, "noted": 0.0}
    correct_by = "exact"
    facts_read = ("notes_hold_answer",)

    def __init__(
        self,
        *,
        combine: Literal["gated", "product", "sum"] = "gated",
        note_weight: NonNegativeFloat = 0.1,
        where: Literal["whole", "boxed", "tagged"] = "tagged",
    ) -> None:
        super().__init__()
        self.combine = combine
        self.note_weight = note_weight
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> Score:
        """Return the combination and the parts."""
        gold = gold_answers(row)
        if not gold:
            return None
        answer = extract(str(row["response"]), self.where)
        noted = facts_of(row)["notes_hold_answer"]
        exact, f1 = (
            0.0 if answer is None else short_answer(answer, gold, metric=metric)
            for metric in ("exact", "f1")
        )
        return {"reward": self._combine(f1, noted), "exact": exact, "f1": f1, "noted": noted}

    def _combine(self, f1: float, noted: float) -> float:
        if self.combine == "product":
            return f1 * noted
        if self.combine == "sum":
            return f1 + self.note_weight * noted
        return max(f1, self.note_weight) if f1 > 0 else self.note_weight * noted
