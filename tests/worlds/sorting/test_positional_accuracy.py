import pytest

from components.worlds.sorting.positional_accuracy import PositionalAccuracy


@pytest.mark.parametrize(
    ("response", "answer", "share"),
    [
        ("1234", "1234", 1.0),
        ("1243", "1234", 0.5),
        ("12", "1234", 0.5),
        ("123456", "123", 0.5),
        (" 12\n", "12", 1.0),
        ("", "12", 0.0),
        ("", "", 1.0),
    ],
)
def test_positions_that_agree_count_out_of_the_longer_text(response, answer, share):
    assert PositionalAccuracy().score("", response, answer) == share
