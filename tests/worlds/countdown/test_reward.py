import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.worlds.countdown.reward import CountdownReward
from components.worlds.countdown.task import Countdown
from rlcomp.errors import DataError

PROMPT = "3 7 2:13="
RIGHT = ["3*2+7", "7+3*2", " (2*3) + 7\n", "7+2*3", "((3)*(2))+7"]
WRONG = [
    "3+7+2",  # 12
    "13",  # not the numbers given
    "3*2+7+0",  # a number too many
    "7+7-1",
    "3*2",  # a number left out
    "3*2+7=13",  # not an expression alone
    "3*2++7",  # a sign
    "-3*2+7",
    "",
    "three",
    "3*2+",
    "(3*2+7",
    "3 2 7",
    "3(2)+7",
    "0x3*2+7",
    "3.0*2+7",
    "03*2+7",
    "3*2+7#",
    "3,2,7",
    "13 if 3*2*7 else 0",
]
HOSTILE = ["9**9**9**9", "9//0", "(" * 100 + "3" + ")" * 100, "(" * 200, "9" * 200, "1" * 100_000]


@pytest.mark.parametrize("response", RIGHT)
def test_an_expression_that_makes_the_target_from_each_number_once_is_right(response):
    assert CountdownReward().score(PROMPT, response, "13") == 1.0


@pytest.mark.parametrize("response", WRONG)
def test_anything_else_is_wrong(response):
    assert CountdownReward().score(PROMPT, response, "13") == 0.0


def test_division_is_exact():
    # 8 / (3 - 8/3) = 8 / (1/3) = 24: in floats it is 23.999...
    assert CountdownReward().score("8 3 8 3:24=", "8/(3-8/3)", "24") == 1.0


@pytest.mark.parametrize("response", ["8**2", "8//2"])
def test_other_operators_than_the_four_are_wrong(response):
    # Taken for a division, either would make 4.
    assert CountdownReward().score("8 2:4=", response, "4") == 0.0


def test_division_by_0_is_wrong():
    assert CountdownReward().score("1 2 2:0=", "1/(2-2)", "0") == 0.0
    assert CountdownReward().score("1 2 2:0=", "(2-2)/1", "0") == 1.0


@pytest.mark.parametrize("response", HOSTILE)
def test_hostile_responses_are_wrong_at_once(response):
    start = time.process_time()

    assert CountdownReward().score(PROMPT, response, "13") == 0.0
    assert time.process_time() - start < 10


@given(st.text("0123456789+-*/() ", max_size=30))
def test_whatever_is_right_is_so_by_python_s_own_arithmetic(response):
    if CountdownReward().score("3 4:12=", response, "12") == 1.0:
        assert eval(response.strip()) == 12


def test_text_before_the_puzzle_does_not_matter():
    assert CountdownReward().score(f"Make it: {PROMPT}\n", "3*2+7", "13") == 1.0


def test_a_number_given_twice_is_used_twice():
    assert CountdownReward().score("2 2:4=", "2+2", "4") == 1.0
    assert CountdownReward().score("2 2:4=", "2+2+2-2", "4") == 0.0


def test_a_prompt_that_is_no_puzzle_is_an_error():
    with pytest.raises(DataError, match=r"not 'What is 1\+1\?'; use task=countdown"):
        CountdownReward().score("What is 1+1?", "2", "2")


def test_the_demonstrations_of_the_task_are_right():
    reward, task = CountdownReward(), Countdown(numbers=4)

    for index in range(200):
        example = task.example(index)
        assert reward.score(example.prompt, example.demonstration, example.answer) == 1.0
