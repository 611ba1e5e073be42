"""What a regular expression finds."""

import pytest

from components.position import PatternMatches
from rlcomp.data.spans import Tokenised
from rlcomp.errors import ConfigError


def found(pattern, text):
    (spans,) = PatternMatches(pattern=pattern).spans([Tokenised(text, ids=[], ends=[])])
    return [text.encode()[start:stop].decode() for start, stop in spans]


def test_group_1_of_every_match_is_asked_for():
    assert found(r"(?m)=(\d+)$", "é1+2=3\n4=44\n5=x") == ["3", "44"]


def test_matches_without_a_character_are_passed_over():
    assert found(r"(a*)b|c", "b ab c") == ["a"]


def test_what_several_patterns_find_stands_in_text_order():
    assert found([r"(?=([A-Z]{2}))", "x([A-Z])"], "xABC") == ["A", "AB", "BC"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "no regular expression"),
        ("=", "no group"),
        (["(a)", "="], "no group"),
        ([], "an empty list"),
    ],
)
def test_a_pattern_that_asks_for_nothing_is_refused(pattern, words):
    with pytest.raises(ConfigError, match=words):
        PatternMatches(pattern=pattern)
