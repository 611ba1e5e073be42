"""Scores by id in the reply of a judge."""

from __future__ import annotations

import json
from typing import Any

# Of longer replies the end is read: braces within braces take a time that grows with their number.
LONGEST = 2**16


def scores_by_id(reply: str, count: int) -> list[float] | None:
    """The scores of ``{"scores": [{"id": 1, "score": 0.5}, ...]}`` by their ids, 1 to ``count``.

    The last JSON object of the reply that has the key ``scores`` counts; there may be text around
    it. None where there is none, an id is missing, twice there or another one, or a score is no
    number in [0, 1]: what a judge did not say is not guessed.

    Examples:
        >>> scores_by_id('So: {"scores": [{"id": 2, "score": 1}, {"id": 1, "score": 0.25}]}', 2)
        [0.25, 1.0]
        >>> scores_by_id('{"scores": [{"id": 1, "score": 0.5}]}', 2)
    """
    found = _last_scores(reply[-LONGEST:])
    if not isinstance(found, list) or len(found) != count:
        return None
    scores = dict(filter(None, map(_entry, found)))
    if scores.keys() != {*range(1, count + 1)}:
        return None
    return [scores[number] for number in range(1, count + 1)]


def _last_scores(reply: str) -> Any:  # noqa: ANN401 - JSON
    """What stands under ``scores`` in the last object that has it."""
    decoder, found, place = json.JSONDecoder(), None, reply.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(reply, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            found = value.get("scores", found)
        place = reply.find("{", end)
    return found


def _entry(entry: object) -> tuple[int, float] | None:
    """Id and score of an entry; None for what has not both."""
    if not isinstance(entry, dict):
        return None
    number, score = entry.get("id"), entry.get("score")
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None
    return (number, float(score)) if 0 <= score <= 1 else None  # of NaN it is false
