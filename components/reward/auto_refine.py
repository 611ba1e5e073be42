"""AutoRefine reward: the answer, and notes that hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import NonNegativeFloat
from rlcomp.interfaces.fact_reward import FactReward, facts_of
from rlcomp.interfaces.scores import Score
from rlcomp.verify.answers import extract
from rlcomp.verify.columns import gold_answers
from rlcomp.verify.short_answer import short_answer


class AutoRefine(FactReward):
    """F1 of the answer, and a little where only the notes of an agent hold it.

    With the F1 ``f`` of the answer, ``h`` whether the notes hold the gold one, and the weight ``w``
    of notes: ``gated``: ``R = max(f, w)`` if ``f > 0``, else ``w h``; ``product``: ``R = f h``;
    ``sum``: ``R = f + w h``. In the paper's ``gated`` an answer that shares a word with the
    gold one may earn less than a wrong one with good notes; the maximum mends it. An answer is
    right if its words are the gold ones, whatever the notes are.

    Reads and writes: see :class:`rlcomp.interfaces.fact_reward.FactReward`; the parts are
    ``reward`` of the combination, ``exact``, ``f1`` and ``noted``. The environment tells whether
    the notes hold the answer (``environment=tools environment.notes=refine``).

    Args:
        combine: of both.
        note_weight: ``w``.
        where: the answer is ``tagged``, ``boxed`` or the ``whole`` of the last turn.

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
        """The combination and its parts."""
        gold = gold_answers(row)
        if not gold:
            return None
        given = extract(str(row["response"]), self.where)
        noted = facts_of(row)["notes_hold_answer"]
        exact, f1 = (
            0.0 if given is None else short_answer(given, gold, metric=metric)
            for metric in ("exact", "f1")
        )
        return {"reward": self._combined(f1, noted), "exact": exact, "f1": f1, "noted": noted}

    def _combined(self, f1: float, noted: float) -> float:
        if self.combine == "product":
            return f1 * noted
        if self.combine == "sum":
            return f1 + self.note_weight * noted
        return max(f1, self.note_weight) if f1 > 0 else self.note_weight * noted
