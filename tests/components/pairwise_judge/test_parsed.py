"""The mark that stands last in a rationale."""

import pytest

from components.pairwise_judge.rationale import ParsedJudge
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import AnswerPair


def judged(judge, *rationales):
    return judge([AnswerPair("p", "[[1]]", "[[2]]", rationale=text) for text in rationales])


def test_the_last_of_three_marks_counts_whatever_its_case_and_spaces():
    judge = ParsedJudge()

    assert judged(judge, "[[1]]", "so [[2]].", "[[TIE]]", "[[1]] [[2]] [[ t i e ]] ok") == [
        1.0,
        0.0,
        0.5,
        0.5,
    ]
    assert judged(judge, "[[2]] [[tie]] [[1]]", "[[tie]] [[1]] [[2]]") == [1.0, 0.0]
    assert judge.no_verdict.reason == ""
    assert judge([]) == []


def test_without_a_mark_there_is_no_verdict_and_a_warning_says_what_stands_there():
    judge = ParsedJudge(first_text="A wins", second_text="B wins", tie_text="equal")

    with pytest.warns(match=r"2 of 3 .*ends in 'is \[\[1\]\]'"):
        found = judged(judge, "is [[1]]", "b WINS", "A")

    assert found == [None, 0.0, None]


@pytest.mark.parametrize(
    "marks",
    [
        {"first_text": "[1]", "second_text": "[[1]]"},
        {"second_text": "a b", "tie_text": "AB"},
        {"first_text": "no tie", "tie_text": "tie"},
    ],
)
def test_a_mark_within_another_is_refused(marks):
    with pytest.raises(ConfigError, match="one is a part of another"):
        ParsedJudge(**marks)
