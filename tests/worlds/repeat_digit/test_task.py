import pytest

from components.worlds.repeat_digit.task import RepeatDigit
from rlcomp.errors import ConfigError
from rlcomp.verify.ifeval import ifeval


def verdict(example, response):
    columns = example.columns
    return ifeval(response, columns["instruction_id_list"], columns["kwargs"])


@pytest.mark.parametrize(
    ("index", "prompt"),
    [
        (735, "7*4-3>"),  # 7; 3 + 1 times; 7 + 1 + 5 = 13
        (0, "0*1-1>"),
        (100, "1*1-2>"),
        (999, "9*5-0>"),  # 9 leaves 4 by 5, and 0 by 9: 4 + 1 times; 9 + 1 + 0 = 10
        (450, "4*1-5>"),  # 5 leaves 0
    ],
)
def test_the_digits_of_an_index_say_what_is_asked(index, prompt):
    example = RepeatDigit().example(index)

    assert (example.prompt, example.answer) == (prompt, "")


@pytest.mark.parametrize(
    ("response", "right"),
    [("7777", 1.0), ("777", 0.0), ("77777", 1.0), ("17772 7", 1.0), ("77773", 0.0), ("", 0.0)],
)
def test_at_least_so_many_of_one_digit_and_none_of_another(response, right):
    assert verdict(RepeatDigit().example(735), response) == right  # 7*4-3>


def test_every_demonstration_is_right_and_the_other_digit_is_another():
    task = RepeatDigit(longest=9)
    for example in map(task.example, range(len(task))):
        digit, often, other = example.prompt[0], int(example.prompt[2]), example.prompt[4]
        assert digit != other
        assert example.demonstration == digit * often
        assert verdict(example, example.demonstration) == 1.0


@pytest.mark.parametrize("longest", [1, 3, 9])
def test_every_instruction_occurs(longest):
    prompts = {RepeatDigit(longest=longest).example(n).prompt for n in range(1000)}

    assert {prompt[2] for prompt in prompts} == {str(n) for n in range(1, longest + 1)}
    assert len(prompts) == 10 * longest * 9  # a digit, how often, one of the nine others


def test_more_than_nine_would_take_two_digits():
    with pytest.raises(ConfigError, match="longest is 10: must be at most 9"):
        RepeatDigit(longest=10)
