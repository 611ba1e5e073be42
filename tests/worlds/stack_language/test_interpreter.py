"""A stack language: what each command does, and where a program ends."""

import pytest

from components.worlds.stack_language.interpreter import (
    COMMANDS,
    ProgramError,
    parse_stack,
    run_program,
)
from rlcomp.errors import DataError


@pytest.mark.parametrize(
    ("program", "left"),
    [
        ("", [2, 3, 9]),
        ("i", [2, 3, 0]),
        ("k", [2, 3, 8]),
        ("t", [2, 3, 7]),  # 27
        ("a", [2, 2]),  # 12
        ("m", [2, 7]),  # 27
        ("d", [2, 3, 9, 9]),
        ("p", [2, 3]),
        ("s", [2, 9, 3]),
        ("o", [2, 3, 9, 3]),
        ("r", [3, 9, 2]),
        ("[k]", [2, 3, 0]),
        ("[k]k", [2, 3, 9]),
        ("[k][i]", [2, 3, 0]),  # not entered
        ("[ksis]p", [2, 2]),  # moves 9 from the top to the 3, one by one: 12
    ],
)
def test_each_command(program, left):
    assert run_program(program, [2, 3, 9]) == left


def test_there_are_twelve_commands():
    assert "".join(sorted(COMMANDS)) == "[]adikmoprst"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("x", "no command x"),
        ("i i", "no command  "),
        ("pp", "p needs a digit"),
        ("a", "a needs 2 digits"),
        ("dr", "r needs 3 digits"),
        ("p[i]", r"\[ needs a digit"),
        ("[p]", r"\] needs a digit"),
        ("[i", r"\[ without \]"),
        ("i]", r"\] without \["),
        ("[i]]", r"\] without \["),
        ("ddd", "more than 3 digits"),
        ("iiiiiii", "more than 6 steps"),
        ("d[]", "more than 6 steps"),
    ],
)
def test_what_cannot_be_run_says_why(program, why):
    with pytest.raises(ProgramError, match=why):
        run_program(program, [1], max_steps=6, max_depth=3)


def test_limits_are_met_and_not_passed():
    assert run_program("iiiiii", [1], max_steps=6) == [7]
    assert run_program("dd", [1], max_depth=3) == [1, 1, 1]
    # [ k ] k ] k ]: each bracket and each command is a step.
    assert run_program("[k]", [3], max_steps=7) == [0]
    with pytest.raises(ProgramError, match="more than 6 steps"):
        run_program("[k]", [3], max_steps=6)


def test_the_stack_that_was_given_is_left_alone():
    stack = [1]
    run_program("id", stack)

    assert stack == [1]


@pytest.mark.parametrize("text", ["", "a", "1a", "٣", 3, None])
def test_a_stack_is_digits(text):
    with pytest.raises(DataError, match="must be a text of digits"):
        parse_stack(text)
