import pytest

from components.reward.surface import Regex
from rlcomp.errors import ConfigError
from rlcomp.verify import pattern


@pytest.mark.parametrize(("response", "score"), [("<think>a</think> 4", 1.0), ("4", 0.0)])
def test_it_is_1_where_the_pattern_is_found(response, score):
    assert Regex(pattern="<think>.*</think>").score("", response, "") == score


@pytest.mark.parametrize(
    ("response", "score"), [("so {4}", 1.0), ("so { 4 }", 1.0), ("{5} {4}", 0.0), ("4", 0.0)]
)
def test_with_compare_the_first_match_must_be_the_answer(response, score):
    reward = Regex(pattern=r"\{(.*?)\}", group=1, compare=True)

    assert reward.score("", response, " 4") == score


def test_a_group_that_took_no_part_is_not_the_answer():
    assert Regex(pattern="a|(b)", group=1, compare=True).score("", "a", "") == 0.0


def test_a_pattern_that_backtracks_ends_with_its_name(monkeypatch):
    monkeypatch.setattr(pattern, "_SECONDS", 0.05)

    with pytest.raises(ConfigError, match=r"the pattern '\(a\|a\)\*b' takes more than 0.05 s in a"):
        Regex(pattern="(a|a)*b").score("", "a" * 40, "")


def test_a_pattern_that_is_none_is_refused():
    with pytest.raises(ConfigError, match=r"pattern '\(' is no regular expression"):
        Regex(pattern="(")


def test_a_group_that_the_pattern_does_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"group is 2, but pattern '\(a\)' has 1"):
        Regex(pattern="(a)", group=2)
