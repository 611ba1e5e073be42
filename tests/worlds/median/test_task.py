from collections import Counter

import pytest

from components.worlds.median.task import Median
from rlcomp.errors import ConfigError


def test_the_result_of_an_even_number_of_digits_is_the_upper_middle():
    example = Median(length=6).example(387541)

    assert (example.prompt, example.answer) == ("387541>", "5")  # 1 3 4 | 5 7 8
    assert example.demonstration == example.columns["reasoning"] == "134578=5"


def test_leading_zeros_count():
    assert Median(length=3).example(7).columns["reasoning"] == "007=0"


def test_demonstrations_are_plain_or_sort_once_or_twice():
    task = Median(length=3, plain=0.2, twice=0.5)
    examples = [task.example(n) for n in range(1000)]
    kinds = Counter(len(example.demonstration) for example in examples)

    # "1", "123=2", "123123=2". Binomials of 1000 draws have standard deviations of at most 16.
    assert set(kinds) == {1, 5, 8}
    assert abs(kinds[1] - 200) < 50
    assert abs(kinds[8] - 500) < 60
    for example in examples:
        once = str(example.columns["reasoning"])
        digits = once[:3]
        assert example.demonstration in (once[-1], once, f"{digits}{digits}={once[-1]}")


def test_a_flaw_changes_one_digit_of_those_that_sort_and_not_the_result():
    task = Median(length=4, plain=0.4, flawed=1.0)
    seen = 0
    for example in map(task.example, range(0, 9999, 7)):
        shown, true = example.demonstration, str(example.columns["reasoning"])
        assert shown[-1] == example.answer
        if len(shown) > 1:
            seen += 1
            assert sum(a != b for a, b in zip(shown, true, strict=True)) == 1
    assert seen > 700


def test_the_share_of_the_flawed_is_what_was_asked_for():
    task = Median(length=4, flawed=0.3)
    examples = [task.example(n) for n in range(1000)]

    flawed = sum(example.demonstration != example.columns["reasoning"] for example in examples)

    assert 240 < flawed < 360  # a standard deviation is 14.5


def test_there_are_as_many_examples_as_numbers():
    assert len(Median(length=4)) == 10_000


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"length": 19}, "length is 19: must be at most 18"),
        ({"plain": 0.5, "twice": 0.6}, "plain is 0.5 and twice 0.6: must sum to at most 1"),
    ],
)
def test_what_cannot_be_is_refused(arguments, told):
    with pytest.raises(ConfigError, match=told):
        Median(**arguments)


def test_all_of_them_may_be_plain_or_twice():
    assert Median(plain=0.5, twice=0.5).plain == 0.5
    assert len(Median(length=18)) == 10**18
