"""Base class of rewards that read an environment's facts about an episode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tensordict import TensorDict

from rlcomp.errors import ConfigError, nearest
from rlcomp.interfaces.reward import TextReward, text_rows
from rlcomp.keys import Key


class FactReward(TextReward):
    """Text reward that also reads numbers of the environment (``facts``).

    A subclass names the facts in ``facts_read``; its ``score_row`` gets them in the row under
    ``facts``, by name. A row without one of these facts, because its environment failed, is
    invalid.

    Reads ``facts`` (``{name: [B]}``, NaN where missing) and the keys of a text reward.

    Attributes:
        facts_read: names of the facts that a score needs, at least one.

    Raises:
        ConfigError: (when called) the environment has no such fact.
    """

    reads: ClassVar[tuple[Key, ...]] = ("prompt", "response", "answer", "facts")

    facts_read: Sequence[str]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row that has its facts; write the reward entries."""
        rows = text_rows(batch, TextReward.reads)
        facts_by_row = self._facts(batch)
        scores = list[object]([None] * len(rows))
        complete = [
            row
            for row, facts in enumerate(facts_by_row)
            if not any(map(math.isnan, facts.values()))
        ]
        for row in complete:
            rows[row]["facts"] = facts_by_row[row]
        results = self.score_rows([rows[row] for row in complete], complete)
        for row, score in zip(complete, results, strict=True):
            scores[row] = score
        return self.write_scores(batch, rows, scores)

    def _facts(self, batch: TensorDict) -> list[dict[str, float]]:
        names, known = self.facts_read, [*batch["facts"].keys()]
        for name in names:
            if name not in known:
                raise ConfigError(
                    f"{type(self).__name__} reads the fact {name!r}, which the environment does "
                    f"not report{nearest(name, known)}"
                )
        values = zip(*(batch["facts"][name].tolist() for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in values]


def facts_of(row: Mapping[str, object]) -> Mapping[str, float]:
    """Return the facts of a row that :class:`FactReward` scores."""
    facts = row["facts"]
    assert isinstance(facts, dict)
    return facts
