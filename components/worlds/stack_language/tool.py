"""Interpreter tool: runs programs of a stack language."""

from __future__ import annotations

from typing import Literal

from components.worlds.stack_language.interpreter import ProgramError, run_program, stack_of
from rlcomp.arguments import Checked, PositiveInt
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.tool import ToolError
from rlcomp.verify.columns import column


class StackInterpreter(metaclass=Checked):
    """Runs a program of the stack language on the example's ``stack``; tells what it leaves.

    The language is that of :func:`components.worlds.stack_language.interpreter.run_program`. Every
    call starts from the same stack: nothing is remembered. A program that cannot be run is a
    call that was wrong.

    Args:
        max_steps: commands that a program may run.
        max_depth: digits that its stack may hold.
        shows: the ``stack`` that is left, its top last; or ``nothing``, whatever happens: a control
            that must not learn.

    Raises:
        DataError: the example has no column ``stack`` of digits.

    Examples:
        >>> tool = StackInterpreter()
        >>> tool.begin(Example("t=", "tkkkk", "", columns={"stack": "3"}))
        >>> tool("t"), tool("tk"), tool("dt")
        ('9', '8', '39')
    """

    def __init__(
        self,
        *,
        max_steps: PositiveInt = 6,
        max_depth: PositiveInt = 16,
        shows: Literal["stack", "nothing"] = "stack",
    ) -> None:
        self.max_steps = max_steps
        self.max_depth = max_depth
        self.shows = shows
        self.stack: list[int] = []

    def begin(self, example: Example) -> None:
        """Take the example's stack."""
        self.stack = stack_of(column(example.columns, "stack", "tool=stack_interpreter"))

    def __call__(self, query: str) -> str:
        """The stack that a program leaves.

        Raises:
            ToolError: it cannot be run to its end.
        """
        if self.shows == "nothing":
            return ""
        limits = {"max_steps": self.max_steps, "max_depth": self.max_depth}
        try:
            return "".join(map(str, run_program(query, self.stack, **limits)))
        except ProgramError as error:
            raise ToolError(str(error)) from error
