import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.reward.surface import Brevity
from rlcomp.errors import ConfigError


@pytest.mark.parametrize(
    ("response", "score"), [("", 1.0), ("12", 0.75), ("12345678", 0.0), ("123456789", 0.0)]
)
def test_it_falls_from_1_to_0_with_the_characters(response, score):
    assert Brevity(longest=8).score("prompt", response, "answer") == score


@given(st.text(), st.text(min_size=1), st.integers(1, 50))
def test_more_text_is_never_better(text, more, longest):
    reward = Brevity(longest=longest)

    assert 0.0 <= reward.score("", text + more, "") <= reward.score("", text, "") <= 1.0


def test_a_letter_of_several_bytes_is_one_character():
    assert Brevity(longest=4).score("", "né", "") == 0.5


def test_nothing_cannot_be_longest():
    with pytest.raises(ConfigError, match="longest is 0: must be greater than 0"):
        Brevity(longest=0)
