"""Tracebacks for users: without the frames that every stage is called through."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import hydra

_RLCOMP = Path(__file__).parents[1]
_HYDRA = str(Path(hydra.__file__).parent)
# A note names the stage and the step.
_PASSED = (
    str(_RLCOMP / "cli"),
    str(_RLCOMP / "run"),
    str(_RLCOMP / "component.py"),
)
_CALL = str(Path("torch", "nn", "modules", "module.py"))


def stack_of(error: BaseException) -> str:
    """Return the traceback of an error and its causes; frames of our code that raised it stay."""
    chain = traceback.TracebackException.from_exception(error)
    waiting = [chain]
    while waiting:
        one = waiting.pop()
        own = [frame for frame in one.stack if not frame.filename.startswith(_HYDRA)]
        frames = [frame for frame in own[:-1] if not _passed(frame.filename)]
        one.stack = traceback.StackSummary.from_list([*frames, *own[-1:]])
        waiting += [cause for cause in (one.__cause__, one.__context__) if cause is not None]
    return "".join(chain.format())


def _passed(file: str) -> bool:
    return file.startswith(_PASSED) or file.endswith(_CALL)


def innermost(dump: str) -> str:
    r"""Return the innermost Python frame in faulthandler's dump of a process that died.

    Examples:
        >>> innermost('Current thread 0x1 (most recent call first):\n  File "a.py", line 3 in f')
        ' (a.py, line 3, in f)'
    """
    match = re.search(r'Current thread.*\n  File "(.+)", line (\d+) in (.+)', dump)
    return " ({}, line {}, in {})".format(*match.groups()) if match else ""
