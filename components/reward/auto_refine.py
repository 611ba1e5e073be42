"""AutoRefine reward of the answer and of notes that hold it."""

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
    """AutoRefine reward: F1 of the answer, and a small reward if only the notes hold it.

    ``f`` is the F1 of the answer, ``h`` is 1 if the notes hold the gold answer, and ``w`` is the
    weight of notes. ``gated``: ``R = max(f, w)`` if ``f > 0``, else ``w h``; ``product``:
    ``R = f h``; ``sum``: ``R = f + w h``. In the paper's ``gated`` an answer that shares a word
    with the gold one may earn less than a wrong one with good notes; the maximum corrects that. An
    answer is right if its words are the gold ones; notes do not matter for that.

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
        return {"reward": self._combined(f1, noted), "exact": exact, "f1": f1, "noted": noted}

    def _combined(self, f1: float, noted: float) -> float:
        if self.combine == "product":
            return f1 * noted
        if self.combine == "sum":
            return f1 + self.note_weight * noted
        return max(f1, self.note_weight) if f1 > 0 else self.note_weight * noted
