"""Python tool, which runs programs of the policy in the sandbox."""

from __future__ import annotations

import functools
import json
import os
import re

from rlcomp.arguments import Checked, PositiveFloat, PositiveInt, Unbuilt
from rlcomp.interfaces.tool import ToolError
from rlcomp.sandbox.cell import as_cell
from rlcomp.sandbox.job import MEBIBYTE, Limits, StdioJob
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.workers.function_call import load


class PythonInterpreter(metaclass=Checked):
    """Runs a program in the sandbox; tells what it prints, and the value of a last expression.

    Every call has a new interpreter, without a state. A program that raises or exceeds a limit is a
    wrong call: the result is the last line of its error, or the limit. The episode goes on, unless
    the policy's tokenizer cannot encode the result (a character tokenizer; ``tokenizer=byte``
    encodes everything).

    Args:
        sandbox: the sandbox, which runs the programs of a process one after the other, or its
            description.
        timeout: time limit of a program, in seconds; must be below the limit of a step
            (``environment_pool.timeout``).
        memory_mib: memory limit of a program, in MiB.
        longest: most characters of a result; the rest is cut.

    Raises:
        ConfigError: this machine has no such sandbox.

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
        _runner(sandbox).check(StdioJob, measured=False)

    def __call__(self, code: str) -> str:
        """Return the output of a program.

        Raises:
            ToolError: the program raised or exceeded a limit.
            RlcompError: the sandbox failed.
        """
        outcome = _runner(self.sandbox).run_stdio(as_cell(code), limits=self.limits)
        if outcome.status != "passed":
            raise ToolError(self._told(outcome.message))
        return self._told(outcome.stdout.rstrip())

    def _told(self, text: str) -> str:
        whole = text[: self.longest].encode("utf-8", "replace").decode()
        # Addresses differ between processes, and a replay of the episode must print the same.
        return re.sub(r"\b0x[0-9a-f]{6,}", "0x...", whole)


def _runner(sandbox: ProgramRunner | Unbuilt) -> ProgramRunner:
    """Return the sandbox of this process."""
    if not isinstance(sandbox, Unbuilt):
        return sandbox
    return _made(sandbox.target, json.dumps(dict(sandbox.arguments)), os.getpid())


@functools.cache
def _made(target: str, arguments: str, process: int) -> ProgramRunner:
    del process  # a fork cannot use its parent's sandbox
    runner: ProgramRunner = load(target, json.loads(arguments))  # type: ignore[assignment]
    return runner
