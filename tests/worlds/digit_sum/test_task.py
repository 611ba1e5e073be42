import pytest

from components.worlds.digit_sum.task import DigitSum
from rlcomp.errors import ConfigError


def test_the_sums_of_an_example_by_hand():
    example = DigitSum(modulus=10, shortest=3, longest=3).example(972)

    # 9, 9 + 7 = 16, 16 + 2 = 18.
    assert (example.prompt, example.answer, example.demonstration) == ("972>", "8", "997628=8")
    assert example.columns == {"reasoning": "997628=8"}


def test_the_lengths_take_turns_and_every_prompt_occurs():
    task = DigitSum(modulus=2, shortest=1, longest=3)
    prompts = [task.example(n).prompt[:-1] for n in range(len(task))]

    assert prompts[:6] == ["0", "00", "000", "1", "01", "001"]
    assert [sum(len(p) == n for p in prompts) for n in (1, 2, 3)] == [8, 8, 8]
    assert len(set(prompts)) == 2 + 4 + 8


def test_a_guess_has_no_reasoning_and_any_result():
    task = DigitSum(shortest=3, longest=3, guessed=0.3)
    examples = [task.example(n % 125) for n in range(125)]
    guesses = [e for e in examples if e.demonstration != e.columns["reasoning"]]

    assert 20 < len(guesses) < 55  # 37.5, with a standard deviation of 5.1
    assert {e.demonstration for e in guesses} == {f"={digit}" for digit in range(5)}


def test_a_flawed_step_goes_on_with_its_sum():
    task = DigitSum(shortest=4, longest=4, flawed=0.2)
    flawed = steps = 0
    for example in map(task.example, range(625)):
        before, shown = 0, example.demonstration
        for place in range(4):
            digit, total = int(shown[2 * place]), int(shown[2 * place + 1])
            assert digit == int(example.prompt[place])
            flawed += total != (before + digit) % 5
            before, steps = total, steps + 1
        assert shown[8:] == f"={before}"
    assert 0.17 < flawed / steps < 0.23  # 2500 steps: a standard deviation is 0.008


def test_every_step_of_a_wholly_flawed_one_is_wrong():
    shown = DigitSum(modulus=2, shortest=3, longest=3, flawed=1.0).example(0).demonstration

    assert shown == "010001=1"  # each step adds 1: 0 + 0 + 1, 1 + 0 + 1, 0 + 0 + 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"modulus": 11}, "modulus is 11: must be at most 10"),
        ({"modulus": 1}, "modulus is 1: must be at least 2"),
        ({"longest": 19}, "longest is 19: must be at most 18"),
        ({"modulus": 10, "shortest": 9, "longest": 18}, "more than 9223372036854775807 examples"),
        ({"shortest": 5}, "shortest is 5 and longest 4: shortest must be at most longest"),
    ],
)
def test_what_cannot_be_is_refused(arguments, told):
    with pytest.raises(ConfigError, match=told):
        DigitSum(**arguments)


def test_the_ends_of_the_ranges_are_allowed():
    assert len(DigitSum(modulus=10, shortest=18, longest=18)) == 10**18
    assert len(DigitSum(modulus=10, shortest=10, longest=18)) == 9 * 10**18  # 2**63 is 9.22e18
    assert len(DigitSum(modulus=2, shortest=2, longest=2)) == 4
