"""Choices between two options in any case, quotes and punctuation, and scores by id."""

import pytest

from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import check_options
from rlcomp.verify.judge_reply import (
    leading_option,
    option_masses,
    option_share,
    plain_option,
    scores_by_id,
    spellings,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (text, 1.0)
            for text in ("yes", "Yes.", ' "Yes"', "**YES**", "\n_yes_, it does", "(yes)")
        ),
        *(
            (text, 1.0)
            for text in ("`Yes`", "\uff39\uff25\uff33", "\ufeffYes", "“yes”", "Yes, no doubt")
        ),
        *((text, 0.0) for text in ("No.", "no", "'No'", "NO!", "No, yes would be wrong", "No-one")),
        *((text, None) for text in ("Yesterday", "Not", "None", "y", "", "Maybe yes", "#yes")),
        *((text, None) for text in ("yes or no", "Yes/No", "Yes, or no", "no and yes", "no | yes")),
    ],
)
def test_yes_and_no_in_every_spelling(text, value):
    assert leading_option(text, "yes", "no") == value
    mirrored = None if value is None else 1 - value
    assert leading_option(text, "NO", "Yes") == mirrored


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (text, 1.0)
            for text in ("1", " 1.", "(1)", "[1]", "**1**", "\uff11", "1, 2 is worse", "1: a")
        ),
        *((text, None) for text in ("12", "1.5", "1,5", "1 or 2", "1/2", "1 & 2", "", "Answer 1")),
        ("2) because", 0.0),
    ],
)
def test_numbers(text, value):
    assert leading_option(text, "1", "2") == value


def test_an_option_may_begin_with_a_bracket_itself():
    assert leading_option("[[2]] is", "[[1]]", "[[2]]") == 0.0
    assert leading_option('"[[1]]"', "[[1]]", "[[2]]") == 1.0
    assert leading_option("1", "[[1]]", "[[2]]") is None


def test_tokens_that_begin_an_option_count_in_every_spelling():
    first = {"Yes": 0.2, ' "': 0.1, "y": 0.05, "No.": 0.1, "Not": 0.3, "n": 0.05, " *NO": 0.1}

    yes, no = option_masses(first, "yes", "no")

    assert (yes, no) == pytest.approx((0.25, 0.25))
    assert option_share((0.2, 0.05), 0.25) == 0.8
    assert option_share((0.2, 0.05), 0.26) is None
    assert option_share((0.0, 0.0), 0.0) is None


def test_a_token_that_begins_both_counts_for_none():
    assert option_masses({"t": 0.5, "th": 0.2, "TW": 0.1}, "three", "two") == pytest.approx(
        (0.2, 0.1)
    )


def test_spellings_begin_with_the_option_and_have_cases_and_leads():
    result = spellings("yes")

    assert result[0] == "yes"
    assert {"Yes", "YES", " Yes", '"yes', ' "Yes', "**YES", "\nyes", "(yes"} <= set(result)
    assert len(result) == len(set(result))
    assert spellings("1").count("1") == 1


@pytest.mark.parametrize("options", [("Yes", "yes."), ('"A"', "a"), ("a", "AB"), ("\uff11", "12")])
def test_options_that_differ_in_case_or_quotes_alone_are_refused(options):
    with pytest.raises(
        ConfigError, match=r"Judge: one is .*apart from case and quotes.*change one"
    ):
        check_options("Judge", one=options[0], other=options[1])


def test_options_of_marks_alone_are_themselves():
    assert [plain_option(text) for text in ("*", "**", "(A")] == ["*", "**", "a"]
    check_options("Judge", one="*", other="`")


def test_ids_and_scores_may_be_texts_of_numbers():
    reply = '{"scores": [{"id": "2", "score": " 0.25 "}, {"id": 1.0, "score": "1"}]}'
    assert scores_by_id(reply, 2) == [1.0, 0.25]


@pytest.mark.parametrize("score", ['"8/10"', '"1e400"', '"nan"', '"-0.5"', '"1.5"', '""', '"high"'])
def test_a_text_that_is_no_number_from_zero_to_one_is_no_score(score):
    assert scores_by_id('{"scores": [{"id": 1, "score": ' + score + "}]}", 1) is None


@pytest.mark.parametrize("number", ["1.5", "true", '"one"', "1e400"])
def test_an_id_is_a_whole_number(number):
    assert scores_by_id('{"scores": [{"id": ' + number + ', "score": 1}]}', 1) is None
