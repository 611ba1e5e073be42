"""Tracebacks as a user reads them: without the frames of Hydra."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import hydra

_HYDRA = str(Path(hydra.__file__).parent)


def stack_of(error: BaseException) -> str:
    """The traceback of an error and of what caused it, without Hydra's frames."""
    told = traceback.TracebackException.from_exception(error)
    waiting = [told]
    while waiting:
        one = waiting.pop()
        kept = [frame for frame in one.stack if not frame.filename.startswith(_HYDRA)]
        one.stack = traceback.StackSummary.from_list(kept)
        waiting += [cause for cause in (one.__cause__, one.__context__) if cause is not None]
    return "".join(told.format())


def innermost(dump: str) -> str:
    r"""The innermost Python frame in what faulthandler wrote of a process that died.

    Examples:
        >>> innermost('Current thread 0x1 (most recent call first):\n  File "a.py", line 3 in f')
        ' (a.py, line 3, in f)'
    """
    found = re.search(r'Current thread.*\n  File "(.+)", line (\d+) in (.+)', dump)
    return " ({}, line {}, in {})".format(*found.groups()) if found else ""
