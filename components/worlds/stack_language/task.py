"""Task of program repair, which needs the output of an interpreter."""

from __future__ import annotations

import random

from components.worlds.stack_language.interpreter import run_program
from rlcomp.arguments import Checked, ExampleCount, Fraction, PositiveInt, Probability
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

_TARGET = 5
# Largest number of commands of a repaired program. The program "diitkta", with seven, turns every
# digit into 5, so that no output of the interpreter would be needed.
_MAX_COMMANDS = 6


class ProgramRepair(metaclass=Checked):
    """Task of repairs: ``"tk="`` asks to repair ``tk`` so that it turns a hidden digit into 5.

    The program is in the stack language
    (:func:`components.worlds.stack_language.interpreter.run_program`). The column ``stack`` holds
    the hidden digit, and ``wanted`` the required result. ``reward=stack_program`` runs the answer
    on the hidden digit. ``tool=stack_interpreter`` shows the result of a program: if the digit is
    3, the call ``<tk>`` has the result ``8|``, and so ``tkkkk`` is a right answer. Another right
    answer is ``ii``. Without the tool an answer is a guess: no program of at most 6 commands
    without brackets turns more than half of the digits into 5, and most programs do so for one
    digit.

    A demonstration runs the program, appends the missing increments or decrements, runs the
    repaired program, and answers. Before each run, with probability 1 - ``asked``, it instead
    answers with the repair for a random output.

    Args:
        longest: largest number of commands of a program in a prompt; the commands are ``i``, ``k``
            and ``t``.
        asked: probability of each run of a demonstration.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Examples:
        >>> example = ProgramRepair(asked=1.0).example(3)
        >>> example.prompt, example.columns["stack"], example.turns
        ('t=', '3', ('<t>', '9|', '<tkkkk>', '5|', 'tkkkk'))
    """

    def __init__(
        self,
        *,
        longest: PositiveInt = 2,
        asked: Probability = 0.4,
        examples: ExampleCount = 100_000,
        held_out: Fraction = 0.25,
    ) -> None:
        self.longest = longest
        self.asked = asked
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return a random wrong program for the hidden digit ``index % 10``."""
        draw = random.Random(named_seed(index, "program"))
        digit = index % 10
        program = self._draw_wrong_program(digit, draw)
        turns = self._turns(program, digit, draw)
        return Example(
            f"{program}=",
            program + _missing_steps(_run(program, digit)),
            "".join(turns),
            source=f"{program}={digit}",
            columns={"stack": str(digit), "wanted": str(_TARGET)},
            turns=tuple(turns),
        )

    def _draw_wrong_program(self, digit: int, draw: random.Random) -> str:
        while True:
            program = "".join(draw.choices("ikt", k=draw.randint(1, self.longest)))
            missing = _missing_steps(_run(program, digit))
            if missing and len(program + missing) <= _MAX_COMMANDS:
                return program

    def _turns(self, program: str, digit: int, draw: random.Random) -> list[str]:
        """Return a demonstration: run, repair, run, answer."""
        turns, repaired = list[str](), program
        while draw.random() < self.asked:
            result = _run(repaired, digit)
            turns += [f"<{repaired}>", f"{result}|"]
            if result == _TARGET:
                return [*turns, repaired]
            repaired += _missing_steps(result)
        return [*turns, program + _missing_steps(draw.randrange(10))]


def _run(program: str, digit: int) -> int:
    (result,) = run_program(program, [digit])
    return result


def _missing_steps(digit: int) -> str:
    """Return the shortest text of increments or decrements from a digit to the target."""
    increments = (_TARGET - digit) % 10
    return "i" * increments if increments <= 5 else "k" * (10 - increments)
