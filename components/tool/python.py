"""Tool that runs Python programs of the policy in the sandbox."""

from __future__ import annotations

import functools
import json
import os
import re

from rlcomp.arguments import Checked, PositiveFloat, PositiveInt, Unbuilt
from rlcomp.interfaces.tool import ToolError
from rlcomp.sandbox.job import MEBIBYTE, Limits, StdioJob
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.workers.function_call import load

# A notebook cell: a program that prints the value of its last expression, unless it is None.
_CELL = """\
import ast
tree = ast.parse({source!r}, "<cell>")
last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
names = {{"__name__": "__main__"}}
exec(compile(tree, "<cell>", "exec"), names)
value = last and eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
if value is not None:
    print(repr(value))
"""


class PythonInterpreter(metaclass=Checked):
    """Tool that runs a program in the sandbox and returns its output.

    The output is the text that the program prints, then the value of an expression in its last
    line. Every call has a new interpreter without a state. A program that raises an error or
    exceeds a limit is a wrong call, whose result is the last line of the error, or the limit. The
    episode continues unless the policy's tokenizer cannot encode the result; ``tokenizer=byte``
    encodes every result.

    Args:
        sandbox: the sandbox, or its description. It runs one program of a process at a time.
        timeout: time limit of a program, in seconds; must be below the limit of a step
            (``environment_pool.timeout``).
        memory_mib: memory limit of a program, in MiB.
        longest: largest number of characters of a result; a longer one is cut.

    Raises:
        ConfigError: the sandbox does not work on this machine.

    Source:
        Feng et al. 2025 (ReTool), arXiv:2504.11536, section 2.3, for the results.
    """

    def __init__(
        self,
        *,
        sandbox: ProgramRunner | Unbuilt,
        timeout: PositiveFloat = 5.0,
        memory_mib: PositiveInt = 256,
        longest: PositiveInt = 1000,
    ) -> None:
        self.sandbox = sandbox
        self.limits = Limits(wall=timeout, cpu=timeout, memory=memory_mib * MEBIBYTE)
        self.longest = longest
        _get_runner(sandbox).check(StdioJob, measured=False)

    def __call__(self, code: str) -> str:
        """Return the output of a program.

        Raises:
            ToolError: the program raised or exceeded a limit.
            RlcompError: the sandbox failed.
        """
        outcome = _get_runner(self.sandbox).run_stdio(_CELL.format(source=code), limits=self.limits)
        if outcome.status != "passed":
            raise ToolError(self._format_result(outcome.message))
        return self._format_result(outcome.stdout.rstrip())

    def _format_result(self, text: str) -> str:
        """Return a text as a result: cut, without surrogates and memory addresses."""
        result = text[: self.longest].encode("utf-8", "replace").decode()
        # Addresses differ between processes, but a replay of the episode must have equal results.
        return re.sub(r"\b0x[0-9a-f]{6,}", "0x...", result)


def _get_runner(sandbox: ProgramRunner | Unbuilt) -> ProgramRunner:
    """Return the sandbox of this process."""
    if not isinstance(sandbox, Unbuilt):
        return sandbox
    return _load_runner(sandbox.target, json.dumps(dict(sandbox.arguments)), os.getpid())


@functools.cache
def _load_runner(target: str, arguments: str, process: int) -> ProgramRunner:
    del process  # Part of the cache key, because a fork cannot use its parent's sandbox.
    runner: ProgramRunner = load(target, json.loads(arguments))  # type: ignore[assignment]
    return runner
