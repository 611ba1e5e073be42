"""Python tool: programs of the policy, run in the sandbox."""

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
from rlcomp.workers.call import load


class PythonInterpreter(metaclass=Checked):
    """Runs a program in the sandbox; tells what it prints, and the value of a last expression.

    A new interpreter at every call: nothing is remembered. A program that raises, or goes beyond a
    limit, is a call that was wrong: the last line of its error is told, or the limit. It costs its
    episode no more than that, unless the policy's tokenizer cannot write what is told (a character
    tokenizer; ``tokenizer=byte`` writes anything).

    Args:
        sandbox: runs the programs of a process one after the other; its description, or itself.
        timeout: limit of a program, in seconds; that of a step (``environment_pool.timeout``) must
            be longer.
        memory_mib: limit of a program, in MiB.
        longest: characters that are told; what goes beyond is cut.

    Raises:
        ConfigError: this machine has no such sandbox.

    Source:
        Feng et al. 2025 (ReTool), arXiv:2504.11536, section 2.3, for what is told.
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
        """What a program prints.

        Raises:
            ToolError: it raised, or went beyond a limit.
            RlcompError: the sandbox failed.
        """
        outcome = _runner(self.sandbox).run_stdio(as_cell(code), limits=self.limits)
        if outcome.status != "passed":
            raise ToolError(self._told(outcome.message))
        return self._told(outcome.stdout.rstrip())

    def _told(self, text: str) -> str:
        whole = text[: self.longest].encode("utf-8", "replace").decode()
        # Addresses differ from process to process, and an episode may be played again.
        return re.sub(r"\b0x[0-9a-f]{6,}", "0x...", whole)


def _runner(sandbox: ProgramRunner | Unbuilt) -> ProgramRunner:
    """The sandbox of this process."""
    if not isinstance(sandbox, Unbuilt):
        return sandbox
    return _made(sandbox.target, json.dumps(dict(sandbox.arguments)), os.getpid())


@functools.cache
def _made(target: str, arguments: str, process: int) -> ProgramRunner:
    del process  # a fork cannot use that of its parent
    made: ProgramRunner = load(target, json.loads(arguments))  # type: ignore[assignment]
    return made
