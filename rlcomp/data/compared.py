"""Which answers of a data set's row are better than which: pairs, votes, rankings and ratings.

No torch here, so that a bad file is found before anything heavy is imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from rlcomp.columns import CONVERSATION
from rlcomp.data.converted import with_names
from rlcomp.data.records import Row
from rlcomp.errors import DataError, nearest

# What float32 can hold; whole numbers of a file may be longer than any float.
_LARGEST = 3.4e38
# Answers of a row: n of them are n (n - 1) / 2 pairs.
_MOST_ANSWERS = 128


class Compared(NamedTuple):
    """Two answers to one prompt; each a text, or messages.

    Attributes:
        chosen: the better one.
        rejected: the other.
        told: columns of the example: weight, label noise.
    """

    chosen: object
    rejected: object
    told: Mapping[str, object]


def compared_answers(row: Row) -> list[Compared]:
    """The pairs of a row; none of ties.

    Raises:
        DataError: it has none of the columns, or something else in them; names file and line.
    """
    held = row.columns
    check_labels(row)
    if {"chosen", "rejected"} <= {*held}:
        return _voted(row, Compared(held["chosen"], held["rejected"], {}))
    if {"output_1", "output_2", "preference"} <= {*held}:
        second = _finite(row, "preference", held["preference"], 1.0, 2.0) - 1
        return _by_probability(held["output_1"], held["output_2"], 1 - second)
    if "responses" in held and {"ranking", "ratings"} & {*held}:
        return _ranked(row)
    known = ("chosen", "rejected", "responses", "ratings", "completion", "label")
    lacking = next((n for n in ("rejected", "chosen") if n not in held), "chosen")
    raise DataError(
        f"{row.place}: no preference: a row has 'chosen' and 'rejected', 'responses' and 'ranking' "
        f"or 'ratings', or 'completion' and 'label'"
        + (_renamed(row) or nearest(lacking, [*held] or known))
    )


# What other data sets call a prompt.
_ASKED = ("question", "instruction", "query", "input")


def _renamed(row: Row) -> str:
    """How columns like ``response_chosen`` get their names, as the end of a message; empty: none.

    ``better`` and ``worse`` (TL;DR) and ``positive`` and ``negative`` are the same.
    """
    pairs = (("chosen", "rejected"), ("better", "worse"), ("positive", "negative"))
    for pair in pairs:
        columns = [[name for name in row.columns if one in name.lower()] for one in pair]
        if all(len(found) == 1 for found in columns):
            asked = [name for name in _ASKED if name in row.columns]
            prompt = {"prompt": asked[0]} if asked and "prompt" not in row.columns else {}
            names = {**prompt, "chosen": columns[0][0], "rejected": columns[1][0]}
            return with_names(row.place, names)
    return ""


def check_labels(row: Row) -> None:
    """Refuse columns that say how a label counts, where they are none.

    Raises:
        DataError: a weight or margin below 0, a noise that is no probability, an annotator that is
            no text, ``desirable`` or ``step`` that is not true or false, or a ``conversation``,
            which is written by this reader; names file and line.
    """
    held = {name: value for name, value in row.columns.items() if value is not None}
    for name, most in (("weight", math.inf), ("margin", math.inf), ("label_noise", 1.0)):
        if name in held:
            _finite(row, name, held[name], 0.0, most, slack=0.0)
    for name, kind, told in (
        ("annotator", str, "a text"),
        ("desirable", bool, "true or false"),
        ("step", bool, "true or false"),
    ):
        if name in held and not isinstance(held[name], kind):
            raise DataError(f"{row.place}: column {name!r} is {held[name]!r:.60}: must be {told}")
    if CONVERSATION in held:
        raise DataError(
            f"{row.place}: column {CONVERSATION!r} is written by the reader of messages: give "
            "it another name"
        )


def _voted(row: Row, pair: Compared) -> list[Compared]:
    votes = row.columns.get("votes")
    if votes is None:
        return [pair]
    if not isinstance(votes, Sequence) or isinstance(votes, str) or len(votes) != 2:
        raise DataError(
            f"{row.place}: column 'votes' is {votes!r:.60}: must be [for chosen, for rejected]"
        )
    for_it, against = (_finite(row, "votes", vote, 0.0, math.inf) for vote in votes)
    if for_it + against == 0:
        raise DataError(f"{row.place}: column 'votes' is {votes!r:.60}: nobody has voted")
    return _by_probability(pair.chosen, pair.rejected, for_it / (for_it + against))


def _by_probability(first: object, second: object, probability: float) -> list[Compared]:
    """The pair of which the first answer is preferred with a probability; none at a tie."""
    if probability == 0.5:
        return []
    better, worse = (first, second) if probability > 0.5 else (second, first)
    return [Compared(better, worse, {"label_noise": min(probability, 1 - probability)})]


def _ranked(row: Row) -> list[Compared]:
    """All pairs of answers that differ in rank, each by its share of the row."""
    responses = row.columns["responses"]
    if not isinstance(responses, (list, tuple)) or len(responses) < 2:
        raise DataError(
            f"{row.place}: column 'responses' is {responses!r:.60}: a list of two or more"
        )
    if len(responses) > _MOST_ANSWERS:
        raise DataError(
            f"{row.place}: column 'responses' has {len(responses)} answers: at most "
            f"{_MOST_ANSWERS}, as every two of them are a pair; keep some of them"
        )
    value = _values(row, len(responses))
    pairs = [
        (i, j) if value[i] > value[j] else (j, i)
        for i, j in combinations(range(len(responses)), 2)
        if value[i] != value[j]
    ]
    told = {"weight": 1 / len(pairs)} if pairs else {}
    return [Compared(responses[i], responses[j], told) for i, j in pairs]


def _values(row: Row, count: int) -> list[float]:
    """How good each response is."""
    name = "ranking" if "ranking" in row.columns else "ratings"
    given = row.columns[name]
    if not isinstance(given, (list, tuple)) or len(given) != count:
        raise DataError(
            f"{row.place}: column {name!r} is {given!r:.60}: must be a list with one number for "
            f"each of the {count} responses"
        )
    if name == "ratings":
        return [_finite(row, name, one, -math.inf, math.inf) for one in given]
    if sorted(map(str, given)) != sorted(map(str, range(count))):
        raise DataError(
            f"{row.place}: column 'ranking' is {list(given)!r:.60}: must be the places of the "
            f"responses, 0 to {count - 1}, best first; several may not share one (use 'ratings')"
        )
    places = {int(str(place)): rank for rank, place in enumerate(given)}
    return [float(-places[place]) for place in range(count)]


def _finite(
    row: Row, name: str, value: object, low: float, high: float, *, slack: float = 1e-4
) -> float:
    """A number within bounds; a judge's figures may be a rounding error (``slack``) outside."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    lowest, highest = max(low - slack, -_LARGEST), min(high + slack, _LARGEST)
    # Compared before it is converted; NaN is within no bounds.
    if not number or not lowest <= value <= highest:  # type: ignore[operator]
        raise DataError(
            f"{row.place}: column {name!r} holds {_shown(value)}: must be a number from "
            f"{max(low, -_LARGEST):g} to {min(high, _LARGEST):g}"
        )
    return min(max(float(value), low), high)  # type: ignore[arg-type]


def _shown(value: object) -> str:
    # Python refuses to write whole numbers of thousands of digits.
    is_long = isinstance(value, int) and abs(value) > _LARGEST
    return "a number of more than 38 digits" if is_long else f"{value!r:.60}"
