"""Comparisons of answers in a data set's row: pairs, votes, rankings and ratings.

This module does not import torch, so that a bad file is reported before slow imports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from rlcomp.columns import CONVERSATION
from rlcomp.data.records import Row
from rlcomp.errors import DataError, nearest

# About the largest float32; an integer in a file may be larger than any float.
LARGEST_NUMBER = 3.4e38
# Most answers of a row: n answers make n (n - 1) / 2 pairs.
_MOST_ANSWERS = 128
# Neither answer is preferred: each is the better one with probability 1/2.
_TIE: Mapping[str, object] = {"tie": True, "label_noise": 0.5}
# Columns of a battle of two models, and the index of the winner by its label.
_BATTLES = (("response_a", "response_b"), ("conversation_a", "conversation_b"))
_WINNERS: dict[str, int | None] = {
    "model_a": 0,
    "a": 0,
    "model_b": 1,
    "b": 1,
    "tie": None,
    "tie (bothbad)": None,
    "both_bad": None,
}


class ComparedPair(NamedTuple):
    """Two answers to one prompt, each a text or messages.

    Attributes:
        chosen: the better answer.
        rejected: the worse answer.
        label_columns: columns of the example that describe the label: ``weight``,
            ``label_noise``, ``tie``.
    """

    chosen: object
    rejected: object
    label_columns: Mapping[str, object]


def compared_answers(row: Row, *, ties: bool = False) -> list[ComparedPair]:
    """Return the pairs of a row.

    Args:
        row: a row of preferences.
        ties: whether to include pairs where neither answer is preferred; they keep the order of
            the file and get ``tie`` and a label noise of 1/2.

    Raises:
        DataError: the row has none of the known columns, or a bad value; the message names file and
            line.
    """
    columns = row.columns
    check_labels(row)
    if {"chosen", "rejected"} <= {*columns}:
        pair = _voted_pair(row, columns["chosen"], columns["rejected"])
    elif {"output_1", "output_2", "preference"} <= {*columns}:
        second = _bounded_number(row, "preference", columns["preference"], 1.0, 2.0) - 1
        pair = _pair_by_probability(columns["output_1"], columns["output_2"], 1 - second)
    elif battle := next((names for names in _BATTLES if {*names, "winner"} <= {*columns}), None):
        pair = _battle_pair(row, columns[battle[0]], columns[battle[1]])
    elif "responses" in columns and {"ranking", "ratings"} & {*columns}:
        return _ranking_pairs(row, ties)
    else:
        raise _no_preference(row)
    return [pair] if ties or "tie" not in pair.label_columns else []


def _no_preference(row: Row) -> DataError:
    columns = row.columns
    known = ("chosen", "rejected", "responses", "ratings", "completion", "label")
    lacking = next((n for n in ("rejected", "chosen") if n not in columns), "chosen")
    return DataError(
        f"{row.place}: no preference: a row has 'chosen' and 'rejected', 'responses' and 'ranking' "
        f"or 'ratings', or 'completion' and 'label'"
        + (_rename_hint(row) or nearest(lacking, [*columns] or known))
    )


# Names of the prompt's column in other data sets.
_PROMPTS = ("question", "instruction", "query", "input")


def _rename_hint(row: Row) -> str:
    """Return the command that renames columns like ``response_chosen``; '' if there are none."""
    # better, worse: TL;DR
    for pair in (("chosen", "rejected"), ("better", "worse"), ("positive", "negative")):
        matches = [[name for name in row.columns if word in name.lower()] for word in pair]
        if all(len(names) == 1 for names in matches):
            prompts = [name for name in _PROMPTS if name in row.columns]
            prompt = {"prompt": prompts[0]} if prompts and "prompt" not in row.columns else {}
            names = {**prompt, "chosen": matches[0][0], "rejected": matches[1][0]}
            from rlcomp.advice.format_hints import renaming_command

            return renaming_command(row.place, names)
    return ""


def check_labels(row: Row) -> None:
    """Check the columns that weigh or describe a label.

    Raises:
        DataError: a weight or margin is below 0, a noise is no probability, an annotator is no
            text, ``desirable``, ``step`` or ``tie`` is not true or false, or a column has the
            reserved name ``conversation``; the message names file and line.
    """
    present = {name: value for name, value in row.columns.items() if value is not None}
    for name, most in (("weight", math.inf), ("margin", math.inf), ("label_noise", 1.0)):
        if name in present:
            _bounded_number(row, name, present[name], 0.0, most, slack=0.0)
    for name, kind, description in (
        ("annotator", str, "a text"),
        ("desirable", bool, "true or false"),
        ("step", bool, "true or false"),
        ("tie", bool, "true or false"),
    ):
        if name in present and not isinstance(present[name], kind):
            raise DataError(
                f"{row.place}: column {name!r} is {present[name]!r:.60}: must be {description}"
            )
    if CONVERSATION in present:
        raise DataError(
            f"{row.place}: column {CONVERSATION!r} is written by the reader of messages: give "
            "it another name"
        )


def _voted_pair(row: Row, chosen: object, rejected: object) -> ComparedPair:
    """Return the pair of ``chosen`` and ``rejected``, which ``votes`` may turn round."""
    votes = row.columns.get("votes")
    if row.columns.get("tie"):
        return ComparedPair(chosen, rejected, _TIE)
    if votes is None:
        return ComparedPair(chosen, rejected, {})
    if not isinstance(votes, Sequence) or isinstance(votes, str) or len(votes) != 2:
        raise DataError(
            f"{row.place}: column 'votes' is {votes!r:.60}: must be [for chosen, for rejected]"
        )
    votes_for, votes_against = (
        _bounded_number(row, "votes", vote, 0.0, math.inf) for vote in votes
    )
    if votes_for + votes_against == 0:
        raise DataError(f"{row.place}: column 'votes' is {votes!r:.60}: nobody has voted")
    return _pair_by_probability(chosen, rejected, votes_for / (votes_for + votes_against))


def _pair_by_probability(first: object, second: object, probability: float) -> ComparedPair:
    """Return the pair whose first answer is preferred with a probability; 1/2 is a tie."""
    if probability == 0.5:
        return ComparedPair(first, second, _TIE)
    better, worse = (first, second) if probability > 0.5 else (second, first)
    return ComparedPair(better, worse, {"label_noise": min(probability, 1 - probability)})


def _battle_pair(row: Row, first: object, second: object) -> ComparedPair:
    """Return the pair of a battle of two models."""
    winner = row.columns["winner"]
    if not isinstance(winner, str) or winner not in _WINNERS:
        raise DataError(
            f"{row.place}: column 'winner' is {winner!r:.60}: must be one of {', '.join(_WINNERS)}"
        )
    index = _WINNERS[winner]
    if index is None:
        return ComparedPair(first, second, _TIE)
    return ComparedPair(first, second, {}) if index == 0 else ComparedPair(second, first, {})


def rating_of(row: Row) -> float:
    """Return the column ``rating``.

    Raises:
        DataError: the rating is no finite number; the message names file and line.
    """
    return _bounded_number(row, "rating", row.columns["rating"], -math.inf, math.inf)


def rated_answers(row: Row) -> list[tuple[object, float]]:
    """Return each of K ``responses`` with its rating.

    Without ``ratings`` the ``ranking`` gives ratings of K - 1 (best) to 0.

    Raises:
        DataError: there is not one finite number for each response; the message names file and
            line.
    """
    responses = _responses(row)
    if "ratings" in row.columns:
        ratings = _ratings(row, len(responses))
    else:
        ratings = [len(responses) - 1.0 - rank for rank in _ranks(row, len(responses))]
    return list(zip(responses, ratings, strict=True))


def _ranking_pairs(row: Row, ties: bool) -> list[ComparedPair]:
    """Return the pairs of answers that differ in rank or rating, each with weight 1 / their number.

    With ``ties`` also the pairs that do not differ.
    """
    responses = _responses(row)
    if "ranking" in row.columns:
        value = [-float(rank) for rank in _ranks(row, len(responses))]
    else:
        value = _ratings(row, len(responses))
    pairs = [
        (i, j) if value[i] >= value[j] else (j, i)
        for i, j in combinations(range(len(responses)), 2)
        if ties or value[i] != value[j]
    ]
    return [
        ComparedPair(
            responses[i],
            responses[j],
            {"weight": 1 / len(pairs), **(_TIE if value[i] == value[j] else {})},
        )
        for i, j in pairs
    ]


def _responses(row: Row) -> Sequence[object]:
    responses = row.columns["responses"]
    if not isinstance(responses, (list, tuple)) or len(responses) < 2:
        raise DataError(
            f"{row.place}: column 'responses' is {responses!r:.60}: must be a list of two or more"
        )
    if len(responses) > _MOST_ANSWERS:
        raise DataError(
            f"{row.place}: column 'responses' has {len(responses)} answers: at most "
            f"{_MOST_ANSWERS}, because every two of them are a pair; keep some of them"
        )
    return responses


def _ratings(row: Row, count: int) -> list[float]:
    """Return the rating of each response; higher is better."""
    values = _numbers(row, "ratings", count)
    return [_bounded_number(row, "ratings", value, -math.inf, math.inf) for value in values]


def _ranks(row: Row, count: int) -> list[int]:
    """Return the rank of each response; 0 is the best."""
    indices = _numbers(row, "ranking", count)
    if sorted(map(str, indices)) != sorted(map(str, range(count))):
        raise DataError(
            f"{row.place}: column 'ranking' is {list(indices)!r:.60}: must be the indices of the "
            f"responses, 0 to {count - 1}, best first, each once (for ties use 'ratings')"
        )
    ranks = {int(str(index)): rank for rank, index in enumerate(indices)}
    return [ranks[index] for index in range(count)]


def _numbers(row: Row, name: str, count: int) -> Sequence[object]:
    """Return a column that is a list with an entry for each response."""
    values = row.columns[name]
    if not isinstance(values, (list, tuple)) or len(values) != count:
        raise DataError(
            f"{row.place}: column {name!r} is {values!r:.60}: must be a list with one number for "
            f"each of the {count} responses"
        )
    return values


def _bounded_number(
    row: Row, name: str, value: object, low: float, high: float, *, slack: float = 1e-4
) -> float:
    """Return a number clamped to bounds; it may lie outside by a rounding error (``slack``)."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    lowest, highest = max(low - slack, -LARGEST_NUMBER), min(high + slack, LARGEST_NUMBER)
    # Compare before converting: a large int has no float. NaN fails both comparisons.
    if not is_number or not lowest <= value <= highest:  # type: ignore[operator]
        raise DataError(
            f"{row.place}: column {name!r} holds {_abbreviate(value)}: must be a number from "
            f"{max(low, -LARGEST_NUMBER):g} to {min(high, LARGEST_NUMBER):g}"
        )
    return min(max(float(value), low), high)  # type: ignore[arg-type]


def _abbreviate(value: object) -> str:
    # Python refuses to print integers with thousands of digits.
    is_long = isinstance(value, int) and abs(value) > LARGEST_NUMBER
    return "a number of more than 38 digits" if is_long else f"{value!r:.60}"
