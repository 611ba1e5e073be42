import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.worlds.sorting.task import Sorting
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


def test_the_lengths_take_turns():
    task = Sorting(length=4, shortest=2)

    # 9317 = 3 * 3105 + 2: the third length, 4. 9316: the second, so the last 3 digits of 3105.
    assert [task.example(n).prompt for n in (9315, 9316, 9317)] == ["05>", "105>", "3105>"]


def test_every_prompt_of_every_length_occurs_and_each_length_equally_often():
    task = Sorting(length=3, shortest=1)

    prompts = [task.example(n).prompt[:-1] for n in range(len(task))]

    assert [sum(len(p) == n for p in prompts) for n in (1, 2, 3)] == [1000, 1000, 1000]
    assert len(set(prompts)) == 10 + 100 + 1000


@given(st.integers(0, 10**6 - 1))
def test_one_length_is_the_plain_task(index):
    assert Sorting(shortest=6).example(index) == Sorting().example(index)


def test_a_share_of_the_demonstrations_stands_in_brackets():
    task = Sorting(length=3, bracketed=0.3)
    examples = [task.example(n) for n in range(1000)]

    wrapped = [e for e in examples if e.demonstration == f"({e.answer})"]
    # A binomial of 1000 draws at 0.3 has a standard deviation of 14.5.
    assert 250 < len(wrapped) < 350
    assert all(e.demonstration == e.answer for e in examples if e not in wrapped)
    assert Sorting(length=3, bracketed=1.0).example(421).demonstration == "(124)"


def test_the_shortest_is_not_longer_than_the_longest():
    with pytest.raises(ConfigError, match="shortest is 7: must be at most length, 6"):
        Sorting(shortest=7)


def test_a_share_of_the_demonstrations_is_sorted_downwards():
    task = Sorting(length=4, descending=0.4, bracketed=0.5)
    examples = [task.example(n) for n in range(1000)]

    down = [e for e in examples if e.demonstration.strip("()") == e.answer[::-1] != e.answer]
    up = [e for e in examples if e.demonstration.strip("()") == e.answer]
    # A standard deviation is 15.5; some read the same from both ends.
    assert 350 < len(down) < 450
    assert len(down) + len(up) == 1000
    assert 0.4 < sum(e.demonstration.startswith("(") for e in down) / len(down) < 0.6
    assert Sorting(length=3, descending=1.0).example(421).demonstration == "421"


def test_shuffled_demonstrations_hold_the_digits_in_no_order():
    task, ordered = Sorting(length=6, shuffled=0.75), Sorting(length=6)
    some = [task.example(index) for index in range(0, 10**6, 499)]
    plain = [ordered.example(index) for index in range(0, 10**6, 499)]
    assert [sorted(one.demonstration) for one in some] == [list(one.answer) for one in plain]
    assert [one.answer for one in some] == [one.answer for one in plain]
    # 2,005 examples: sd .01; few orders of six digits happen to be the right one.
    wrong = sum(one.demonstration != one.answer for one in some) / len(some)
    assert 0.70 < wrong < 0.79
    # Every digit comes to every place: the first of the answer is not the first one shown.
    firsts = [one.demonstration[0] == one.answer[0] for one in some if len({*one.answer}) == 6]
    assert sum(firsts) / len(firsts) < 0.5
    assert [one.demonstration for one in some] == [
        task.example(n).demonstration for n in range(0, 10**6, 499)
    ]
