import re

from hypothesis import given
from hypothesis import strategies as st

from components.worlds.countdown.task import Countdown


@given(st.integers(1, 6), st.integers(1, 50), st.integers(0, 9_999))
def test_the_demonstration_makes_the_target_from_each_number_once(numbers, largest, index):
    example = Countdown(numbers=numbers, largest=largest).example(index)

    given_numbers, target = re.fullmatch(r"([\d ]+):(\d+)=", example.prompt).groups()
    assert sorted(re.findall(r"\d+", example.demonstration)) == sorted(given_numbers.split())
    assert re.fullmatch(r"[\d+*()-]+", example.demonstration)
    # eval: only digits and operators passed the line above.
    assert eval(example.demonstration) == int(target)
    assert example.answer == target


@given(st.integers(1, 5), st.integers(1, 50), st.integers(0, 9_999))
def test_there_are_as_many_numbers_as_asked_for_in_range(numbers, largest, index):
    prompt = Countdown(numbers=numbers, largest=largest).example(index).prompt

    values = [int(number) for number in prompt.split(":")[0].split()]
    assert len(values) == numbers
    assert all(1 <= value <= largest for value in values)


def test_an_index_always_makes_the_same_puzzle():
    assert Countdown().example(5) == Countdown().example(5)


def test_indices_make_different_puzzles():
    task = Countdown()

    assert len({task.example(index).prompt for index in range(200)}) > 190


def test_all_operators_and_parentheses_occur():
    text = "".join(Countdown().example(index).demonstration for index in range(100))

    assert set("+-*()") <= set(text)


def test_there_are_as_many_puzzles_as_asked_for():
    assert len(Countdown(size=123)) == 123
