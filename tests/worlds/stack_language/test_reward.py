import pytest

from components.worlds.stack_language.reward import StackProgram
from rlcomp.errors import DataError


def score(response, **columns):
    row = {"prompt": "t=", "response": response, "answer": "tkkkk"}
    return StackProgram().score_row({**row, "stack": "3", "wanted": "5", **columns})


@pytest.mark.parametrize(
    ("response", "right"),
    [
        ("tkkkk", 1.0),  # the answer: 9, 8, 7, 6, 5
        ("ii", 1.0),  # another one
        (" ii ", 1.0),
        ("iidp", 1.0),
        ("", 0.0),
        ("i", 0.0),
        ("iid", 0.0),  # 5 5
        ("5", 0.0),
        ("ii;", 0.0),
        ("tkkkkik", 0.0),  # a 5, after more than 6 steps
    ],
)
def test_the_response_is_run_and_not_compared(response, right):
    assert score(response) == right


def test_an_example_without_its_columns_is_no_wrong_answer():
    with pytest.raises(DataError, match="digits"):
        score("ii", stack="x")


def test_the_whole_stack_is_wanted():
    assert score("s", stack="57", wanted="75") == 1.0
    assert score("p", stack="57", wanted="75") == 0.0
    assert score("sp", stack="57", wanted="77") == 0.0
