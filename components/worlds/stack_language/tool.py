"""Tool that runs programs of the stack language."""

from __future__ import annotations

from typing import Literal

from components.worlds.stack_language.interpreter import ProgramError, parse_stack, run_program
from rlcomp.arguments import Checked, PositiveInt
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.tool import ToolError
from rlcomp.verify.answers import column


class StackInterpreter(metaclass=Checked):
    """Tool that runs a program on the example's column ``stack`` and returns the final stack.

    For the language see :func:`components.worlds.stack_language.interpreter.run_program`. Every
    call starts from the same stack. A program that fails is a ToolError; with
    ``shows: nothing`` no program is run.

    Args:
        max_steps: largest number of commands to run.
        max_depth: largest number of digits on the stack.
        shows: text that the tool returns. ``stack``: the final stack, its top last. ``nothing``: no
            text, as a control without information.

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
        """Store the stack of an example."""
        self.stack = parse_stack(column(example.columns, "stack", "tool=stack_interpreter"))

    def __call__(self, query: str) -> str:
        """Run a program and return the final stack.

        Raises:
            ToolError: the program cannot run to its end.
        """
        if self.shows == "nothing":
            return ""
        limits = {"max_steps": self.max_steps, "max_depth": self.max_depth}
        try:
            return "".join(map(str, run_program(query, self.stack, **limits)))
        except ProgramError as error:
            raise ToolError(str(error)) from error
