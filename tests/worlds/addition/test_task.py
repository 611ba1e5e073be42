import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.worlds.addition.task import Addition
from rlcomp.errors import ConfigError


def test_the_example_of_the_documentation():
    example = Addition(digits=2).example(1234)

    assert (example.prompt, example.answer, example.demonstration) == ("12+34=", "46", "46")


def test_small_numbers_have_no_leading_zeros():
    assert Addition(digits=3).example(5).prompt == "0+5="


@given(st.integers(1, 9), st.data())
def test_the_answer_is_the_sum_of_the_prompt_s_numbers(digits, data):
    task = Addition(digits=digits)
    index = data.draw(st.integers(0, len(task) - 1))

    example = task.example(index)

    left, right = map(int, example.prompt.removesuffix("=").split("+"))
    assert int(example.answer) == left + right
    assert left * 10**digits + right == index
    assert max(left, right) < 10**digits


def test_there_are_as_many_examples_as_pairs():
    assert len(Addition(digits=1)) == 100


def test_too_many_digits_to_count_are_refused():
    with pytest.raises(ConfigError, match="digits is 10: must be at most 9"):
        Addition(digits=10)
