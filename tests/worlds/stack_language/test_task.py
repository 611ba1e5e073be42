from itertools import product

import pytest

from components.worlds.stack_language.interpreter import ProgramError, run_program
from components.worlds.stack_language.task import ProgramRepair
from rlcomp.errors import ConfigError

CHANGES = {"i": 1, "k": -1}


def run(program, digit):
    """The digit that a program of i, k and t makes, by plain arithmetic."""
    for command in program:
        digit = 3 * digit if command == "t" else digit + CHANGES[command]
    return digit % 10


def test_the_program_of_a_prompt_is_wrong_and_the_answer_is_right_in_6_steps():
    task = ProgramRepair()
    for index in range(300):
        example = task.example(index)
        digit = int(example.columns["stack"])
        assert digit == index % 10
        assert example.columns["wanted"] == "5"
        assert run(example.prompt[:-1], digit) != 5
        assert run(example.answer, digit) == 5
        assert example.answer.startswith(example.prompt[:-1])
        assert len(example.answer) <= 6
        assert task.example(index) == example


def test_a_demonstration_runs_repairs_runs_and_answers_or_guesses():
    ends = set()
    for index in range(300):
        example = ProgramRepair(asked=0.6).example(index)
        *asked, last = example.turns
        digit, program = int(example.columns["stack"]), example.prompt[:-1]
        for call, told in zip(asked[::2], asked[1::2], strict=True):
            assert call == f"<{program}>"
            assert told == f"{run(program, digit)}|"
            program = example.answer
        assert "".join(example.turns) == example.demonstration
        assert last.startswith(example.prompt[:-1])
        if len(asked) == 4:
            assert last == example.answer
        ends.add(len(asked) // 2)
    assert ends == {0, 1, 2}


@pytest.mark.parametrize(("asked", "runs"), [(0.0, 0), (1.0, 2)])
def test_none_is_run_or_all_are_run_and_repaired(asked, runs):
    task = ProgramRepair(asked=asked)

    assert {len(task.example(n).turns) // 2 for n in range(50)} == {runs}


def test_no_program_within_the_limit_is_right_for_more_than_half_of_the_digits():
    # All programs of up to 3 steps; of 4 to 6 it was counted once, which takes a minute.
    most = 0
    for program in ("".join(p) for n in range(4) for p in product("iktadmosrp[]", repeat=n)):
        right = 0
        for digit in range(10):
            try:
                right += run_program(program, [digit], max_steps=6) == [5]
            except ProgramError:
                continue
        most = max(most, right)
    assert most <= 5


def test_prompts_are_as_long_as_asked_for():
    lengths = {len(ProgramRepair(longest=3).example(n).prompt) for n in range(100)}

    assert lengths == {2, 3, 4}


def test_more_examples_than_an_index_counts_are_refused():
    with pytest.raises(ConfigError, match="examples"):
        ProgramRepair(examples=2**63)
