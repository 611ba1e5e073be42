import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.task.sorting import Sorting
from rlcomp.errors import ConfigError


def test_the_example_of_the_documentation():
    example = Sorting(length=6).example(529417)

    assert (example.prompt, example.answer, example.demonstration) == (
        "529417>",
        "124579",
        "124579",
    )


def test_leading_zeros_are_written():
    assert Sorting(length=4).example(30).prompt == "0030>"
    assert Sorting(length=4).example(30).answer == "0003"


@given(st.integers(1, 18), st.data())
def test_every_index_is_another_prompt_and_its_answer_is_in_order(length, data):
    task = Sorting(length=length)
    index = data.draw(st.integers(0, len(task) - 1))

    example = task.example(index)

    assert int(example.prompt[:-1]) == index
    assert len(example.answer) == length
    assert all(a <= b for a, b in zip(example.answer, example.answer[1:], strict=False))
    assert all(example.answer.count(d) == example.prompt.count(d) for d in "0123456789")


def test_there_are_as_many_examples_as_numbers():
    assert len(Sorting(length=3)) == 1000


def test_too_many_digits_to_count_are_refused():
    with pytest.raises(ConfigError, match="length is 19: must be at most 18"):
        Sorting(length=19)
