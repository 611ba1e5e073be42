"""Verifier that runs programs of the stack language."""

from __future__ import annotations

from collections.abc import Mapping

from components.worlds.stack_language.interpreter import ProgramError, parse_stack, run_program
from rlcomp.arguments import PositiveInt
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import column


class StackProgram(TextReward):
    """Reward 1 if the response is a program that turns ``stack`` into ``wanted``, else 0.

    ``stack`` and ``wanted`` are columns of digits, the top last (``task=program``).
    :func:`components.worlds.stack_language.interpreter.run_program` runs the response. The answer
    is ignored, because several programs are right. A program that fails gets 0.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``stack_program``.

    Args:
        max_steps: largest number of commands to run.
        max_depth: largest number of digits on the stack.

    Raises:
        DataError: an example lacks a column, or the column is not a text of digits.
    """

    name = "stack_program"
    needs = ("stack", "wanted")
    column_remedy = "use task=program"

    def __init__(self, *, max_steps: PositiveInt = 6, max_depth: PositiveInt = 16) -> None:
        super().__init__()
        self.max_steps = max_steps
        self.max_depth = max_depth

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return 1 if the program leaves the wanted stack, else 0."""
        stack, wanted = (
            parse_stack(column(row, name, "reward=stack_program")) for name in self.needs
        )
        limits = {"max_steps": self.max_steps, "max_depth": self.max_depth}
        try:
            return float(run_program(str(row["response"]).strip(), stack, **limits) == wanted)
        except ProgramError:
            return 0.0
