"""Tracebacks as a user reads them: without the frames that every stage is called through."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import hydra

_RLCOMP = Path(__file__).parents[1]
_HYDRA = str(Path(hydra.__file__).parent)
# Which stage was called, and when, a note says.
_PASSED = (
    str(_RLCOMP / "cli"),
    str(_RLCOMP / "run"),
    str(_RLCOMP / "component.py"),
)
_CALL = str(Path("torch", "nn", "modules", "module.py"))


def stack_of(error: BaseException) -> str:
    """The traceback of an error and of what caused it; where our own code raised it stays."""
    told = traceback.TracebackException.from_exception(error)
    waiting = [told]
    while waiting:
        one = waiting.pop()
        own = [frame for frame in one.stack if not frame.filename.startswith(_HYDRA)]
        kept = [frame for frame in own[:-1] if not _passed(frame.filename)]
        one.stack = traceback.StackSummary.from_list([*kept, *own[-1:]])
        waiting += [cause for cause in (one.__cause__, one.__context__) if cause is not None]
    return "".join(told.format())


def _passed(file: str) -> bool:
    return file.startswith(_PASSED) or file.endswith(_CALL)


def innermost(dump: str) -> str:
    r"""The innermost Python frame in what faulthandler wrote of a process that died.

    Examples:
        >>> innermost('Current thread 0x1 (most recent call first):\n  File "a.py", line 3 in f')
        ' (a.py, line 3, in f)'
    """
    found = re.search(r'Current thread.*\n  File "(.+)", line (\d+) in (.+)', dump)
    return " ({}, line {}, in {})".format(*found.groups()) if found else ""
