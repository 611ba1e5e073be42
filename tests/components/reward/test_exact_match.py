import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.reward.answer import ExactMatch
from rlcomp.errors import DataError
from rlcomp.testing import make_batch


@pytest.mark.parametrize(
    ("response", "score"), [("42", 1.0), (" 42\n", 1.0), ("4 2", 0.0), ("42.", 0.0), ("", 0.0)]
)
def test_white_space_around_the_response_does_not_matter(response, score):
    assert ExactMatch().score("", response, "42") == score


@pytest.mark.parametrize(("response", "score"), [("42", 1.0), ("42 ", 0.0)])
def test_without_strip_it_does(response, score):
    assert ExactMatch(strip=False).score("", response, "42") == score


@given(st.text(), st.text())
def test_only_the_answer_itself_is_right(response, answer):
    assert ExactMatch(strip=False).score("", response, answer) == (response == answer)


@pytest.mark.parametrize(
    ("where", "response", "score"),
    [
        ("boxed", r"\boxed{ 42}", 1.0),
        ("boxed", "42", 0.0),
        ("boxed", r"\boxed{43}", 0.0),
        ("tagged", "<answer>42 </answer>", 1.0),
        ("tagged", r"\boxed{42}", 0.0),
    ],
)
def test_exact_match_reads_the_agreed_place(where, response, score):
    assert ExactMatch(where=where).score("", response, " 42") == score


def test_a_column_can_hold_the_gold_text():
    reward = ExactMatch(column="reasoning")
    batch = make_batch(
        prompt=["312>"] * 3,
        response=["123=2", "2", "123=3"],
        answer=["2", "2", "123=3"],
        columns=[{"reasoning": " 123=2"}] * 3,
    )
    assert reward(batch)["reward"].tolist() == [1.0, 0.0, 0.0]
    assert reward.needed_columns == {"reasoning"}


def test_an_example_without_the_column_is_told():
    with pytest.raises(DataError, match="reward=exact_match needs the column 'thought'"):
        ExactMatch(column="thought").score_row({"prompt": "", "response": "1", "answer": "1"})


def test_the_answer_is_the_gold_text_and_needs_no_column():
    assert ExactMatch().needed_columns == frozenset()
    assert ExactMatch().score_row({"prompt": "", "response": "7", "answer": "7"}) == 1.0
