"""What a row of a file says about two answers."""

import pytest

from rlcomp.data.comparisons import compared_answers, rated_answers
from rlcomp.data.records import Row
from rlcomp.errors import DataError


@pytest.mark.parametrize(
    ("preference", "chosen"), [(1.0, "a"), (1.25, "a"), (1.75, "b"), (2.0, "b")]
)
def test_a_preference_from_1_to_2_is_the_second_answers(preference, chosen):
    row = Row("f:1", {"output_1": "a", "output_2": "b", "preference": preference})

    (pair,) = compared_answers(row)

    assert (pair.chosen, pair.rejected) == (chosen, {"a": "b", "b": "a"}[chosen])


def test_other_column_names_are_suggested():
    row = Row("f.jsonl:1", {"question": "1?", "response_better": "a", "response_worse": "b"})

    with pytest.raises(DataError) as told:
        compared_answers(row)

    for new, old in (
        ("prompt", "question"),
        ("chosen", "response_better"),
        ("rejected", "response_worse"),
    ):
        assert f"'{new}': row.pop('{old}')" in str(told.value)


@pytest.mark.parametrize(("winner", "chosen"), [("a", "x"), ("model_a", "x"), ("b", "y")])
def test_a_battle_has_a_winner(winner, chosen):
    row = Row("f:1", {"conversation_a": "x", "conversation_b": "y", "winner": winner})

    (pair,) = compared_answers(row)

    assert (pair.chosen, pair.rejected) == (chosen, {"x": "y", "y": "x"}[chosen])


def test_the_pairs_of_a_ranking_count_as_one_row():
    row = Row("f:1", {"responses": ["x", "y", "z"], "ratings": [1.0, 3.0, 2.0]})

    pairs = compared_answers(row)

    assert [(pair.chosen, pair.rejected) for pair in pairs] == [("y", "x"), ("z", "x"), ("y", "z")]
    assert [pair.label_columns for pair in pairs] == [{"weight": 1 / 3}] * 3


@pytest.mark.parametrize(
    ("ranking", "rated"),
    [
        ([2, 0, 1], [("x", 1.0), ("y", 0.0), ("z", 2.0)]),
        ([0, 1, 2], [("x", 2.0), ("y", 1.0), ("z", 0.0)]),
    ],
)
def test_a_ranking_rates_its_best_answer_highest_and_its_last_0(ranking, rated):
    row = Row("f:1", {"responses": ["x", "y", "z"], "ranking": ranking})

    assert rated_answers(row) == rated


def test_ratings_beside_a_ranking_stay_as_they_are():
    columns = {"responses": ["x", "y"], "ratings": [-1.5, 4.0]}

    assert rated_answers(Row("f:1", columns)) == [("x", -1.5), ("y", 4.0)]
