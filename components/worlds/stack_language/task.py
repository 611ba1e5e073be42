"""Program repair: a toy task that needs the output of an interpreter."""

from __future__ import annotations

import random

from components.worlds.stack_language.interpreter import run_program
from rlcomp.arguments import Checked, ExampleCount, Fraction, PositiveInt, Probability
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

_WANTED = 5
# Most steps of a repaired program: with one more, "diitkta" turns every digit into 5.
_MOST_STEPS = 6


class Program(metaclass=Checked):
    """Task of repairs: ``"tk="`` asks to repair ``tk`` so that it turns a hidden digit into 5.

    The program is in the stack language
    (:func:`components.worlds.stack_language.interpreter.run_program`). The reward
    (``reward=stack_program``) runs it on the hidden digit (column ``stack``; ``wanted`` is the
    required result). The interpreter (``tool=stack_interpreter``) shows a program's result:
    ``<tk>`` is answered by ``8|``, so ``tkkkk`` is right; the digit is 3, so ``ii`` is right too.
    Without that output an answer is a guess: no program of at most 6 steps without brackets turns
    more than half of the digits into 5, and most programs one in ten.

    A demonstration runs the program, appends the missing steps up or down, runs the result, and
    answers. It runs a program with probability ``asked``; otherwise it answers with the repair of a
    random output.

    Args:
        longest: commands of the longest program in a prompt; all consist of ``i``, ``k``, ``t``.
        asked: probability that a demonstration runs its program.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: there are more examples than an index can count.

    Examples:
        >>> example = Program(asked=1.0).example(3)
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
        """Return a wrong program and a hidden digit; both alternate."""
        draw = random.Random(named_seed(index, "program"))
        digit = index % 10
        program = self._wrong(digit, draw)
        turns = self._turns(program, digit, draw)
        return Example(
            f"{program}=",
            program + _missing(_run(program, digit)),
            "".join(turns),
            source=f"{program}={digit}",
            columns={"stack": str(digit), "wanted": str(_WANTED)},
            turns=tuple(turns),
        )

    def _wrong(self, digit: int, draw: random.Random) -> str:
        while True:
            program = "".join(draw.choices("ikt", k=draw.randint(1, self.longest)))
            missing = _missing(_run(program, digit))
            if missing and len(program + missing) <= _MOST_STEPS:
                return program

    def _turns(self, program: str, digit: int, draw: random.Random) -> list[str]:
        """Return a demonstration: run, repair, run, answer."""
        turns, now = list[str](), program
        while draw.random() < self.asked:
            left = _run(now, digit)
            turns += [f"<{now}>", f"{left}|"]
            if left == _WANTED:
                return [*turns, now]
            now += _missing(left)
        return [*turns, program + _missing(draw.randrange(10))]


def _run(program: str, digit: int) -> int:
    (left,) = run_program(program, [digit])
    return left


def _missing(digit: int) -> str:
    """Return the fewest steps up or down from a digit to the wanted one."""
    up = (_WANTED - digit) % 10
    return "i" * up if up <= 5 else "k" * (10 - up)
