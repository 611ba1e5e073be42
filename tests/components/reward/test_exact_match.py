import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.reward.exact_match import ExactMatch


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
