"""Masking a span, and which spans may be masked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.data.masked_text import mask_span, normalised_span, span_problem
from rlcomp.errors import DataError

# 35 characters: a fifth of them are 7.
PARAGRAPH = "one two three four five six seven e"


@pytest.mark.parametrize(
    ("span", "problem"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("eight", "absent"),
        ("One", "absent"),
        (PARAGRAPH, "whole"),
        (f" {PARAGRAPH} ", "whole"),
        ("one two", None),  # 7 characters: at the bound
        ("two three", "large"),
        ("\nfour  ", None),
    ],
)
def test_a_span_that_is_no_fair_question_is_named(span, problem):
    assert span_problem(PARAGRAPH, span) == problem


def test_words_are_counted_by_white_space():
    assert span_problem("a b  c " + "x" * 99, "a b  c", longest_words=2) == "long"
    assert span_problem("a b  c " + "x" * 99, "a b  c", longest_words=3) is None


def test_the_share_is_of_the_characters():
    assert span_problem("éééé" + "x" * 16, "éééé", largest_share=0.2) is None
    assert span_problem("éééé" + "x" * 15, "éééé", largest_share=0.2) == "large"


def test_a_span_whose_occurrences_are_all_there_is_is_the_whole():
    assert span_problem("ha ha ha ha ha ha", "ha") == "whole"


def test_a_decomposed_span_is_found_in_a_composed_paragraph():
    composed, decomposed = "caf\u00e9 and tea and milk", "cafe\u0301"

    assert span_problem(composed, decomposed) is None
    assert mask_span(composed, decomposed, "_") == "_ and tea and milk"
    assert mask_span(f"{decomposed} and tea", "caf\u00e9", "_") == "_ and tea"


def test_every_occurrence_is_masked_and_white_space_round_the_span_stays():
    assert mask_span("to be or not to be", " be\n", "[mask]") == "to [mask] or not to [mask]"


@pytest.mark.parametrize("span", ["", "  ", "cat"])
def test_what_does_not_occur_cannot_be_masked(span):
    with pytest.raises(DataError, match="does not occur"):
        mask_span("a dog", span, "[mask]")


@given(st.text("ab \u00e9e\u0301", max_size=30), st.text("ab \u00e9e\u0301", max_size=4))
def test_a_masked_paragraph_no_longer_holds_the_span(paragraph, span):
    if span_problem(paragraph, span, longest_words=99, largest_share=1.0) is None:
        assert normalised_span(span) not in mask_span(paragraph, span, "#")
