"""Reader of scores by id in the reply of a judge."""

from __future__ import annotations

import json
import re
from typing import Any

# Only the end of a longer reply is read: nested braces take a time that grows with their number.
LONGEST = 2**16
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}", re.ASCII)
# Larger than all ids; float() of a very long integer would raise.
_LARGEST = 10**9


def scores_by_id(reply: str, count: int) -> list[float] | None:
    """Return the scores of ``{"scores": [{"id": 1, "score": 0.5}, ...]}``, ids 1 to ``count``.

    The last JSON object of the reply with the key ``scores`` counts; there may be text around it.
    Ids and scores may be written as texts (``"1"``, ``"0.5"``). None if there is no such object, if
    an id is missing, duplicate or unknown, or if a score is no number in [0, 1]: missing scores are
    not guessed.

    Examples:
        >>> scores_by_id('So: {"scores": [{"id": 2, "score": 1}, {"id": 1, "score": 0.25}]}', 2)
        [0.25, 1.0]
        >>> scores_by_id('{"scores": [{"id": 1, "score": 0.5}]}', 2)
    """
    entries = _last_scores(reply[-LONGEST:])
    if not isinstance(entries, list) or len(entries) != count:
        return None
    scores = dict(filter(None, map(_entry, entries)))
    if scores.keys() != {*range(1, count + 1)}:
        return None
    return [scores[number] for number in range(1, count + 1)]


def _last_scores(reply: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value of ``scores`` in the last object that has this key."""
    decoder, scores, place = json.JSONDecoder(), None, reply.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(reply, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            scores = value.get("scores", scores)
        place = reply.find("{", end)
    return scores


def _entry(entry: object) -> tuple[int, float] | None:
    """Return id and score of an entry; None if it lacks one of them."""
    if not isinstance(entry, dict):
        return None
    number, score = _number(entry.get("id")), _number(entry.get("score"))
    if number is None or score is None or not number.is_integer():
        return None
    return (int(number), score) if 0 <= score <= 1 else None


def _number(value: object) -> float | None:
    """Return a JSON number, or the number that a text spells; None for anything else."""
    if isinstance(value, str):
        return float(value) if _DECIMAL.fullmatch(value.strip()) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= _LARGEST else None  # NaN fails the comparison
