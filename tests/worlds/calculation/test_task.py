import re

import pytest

from components.tool import Calculator
from components.worlds.calculation.task import Calculation
from rlcomp.errors import ConfigError


def steps(prompt):
    """Every value on the way, worked out sign by sign."""
    value, values = int(prompt[0]), []
    for sign, digit in re.findall(r"([-+*])(\d)", prompt):
        value = {"+": value + int(digit), "-": value - int(digit), "*": value * int(digit)}[sign]
        values.append(value)
    return values


def test_the_answer_is_worked_out_from_left_to_right():
    for index in range(300):
        example = Calculation(operations=4).example(index)
        values = steps(example.prompt)

        assert re.fullmatch(r"[1-9]([-+*][1-9]){1,4}=", example.prompt)
        assert example.answer == str(values[-1])
        assert all(0 <= value <= 99 for value in values)
        assert Calculation(operations=4).example(index) == example


def test_a_demonstration_calls_the_calculator():
    whole = 0
    for index in range(300):
        example = Calculation(asked=0.7).example(index)
        *asked, last = example.turns
        for number, (call, told) in enumerate(zip(asked[::2], asked[1::2], strict=True)):
            assert told == f"{steps(example.prompt)[number]}|"
            assert Calculator()(call[1:-1]) == told[:-1]
        assert "".join(example.turns) == example.demonstration
        if len(asked) // 2 == len(steps(example.prompt)):
            assert last == example.answer
            whole += 1
        else:
            assert 0 <= int(last) <= 99
    assert 0 < whole < 300


def test_lengths_take_turns():
    task = Calculation(fewest=2, operations=4)

    assert [len(steps(task.example(n).prompt)) for n in range(5)] == [2, 3, 4, 2, 3]


@pytest.mark.parametrize(
    ("name", "value"), [("operations", 0), ("fewest", 4), ("examples", 2**63), ("asked", -0.1)]
)
def test_what_it_cannot_be_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        Calculation(**{name: value})
