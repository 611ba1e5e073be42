"""Execution of source text in a sandboxed process, and lines of the process's report."""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Callable
from typing import Any, Literal

from rlcomp.sandbox.plain_data import NotPlainData

# A remote sandbox changes these two (fusion.py).
REPORT_FILE = 3  # file descriptor of the report
LINE_PREFIX = b""  # start of each line of the report
MAX_MESSAGE = 500  # maximum number of characters of an error in the report


def report(line: object) -> None:
    """Write one line of the report, as JSON."""
    os.write(REPORT_FILE, LINE_PREFIX + json.dumps(line).encode() + b"\n")


def describe_error(error: BaseException) -> str:
    """Return an error in one line: its class and message, or the message of a NotPlainData."""
    message = " ".join(str(error).split())
    if isinstance(error, NotPlainData):
        return message
    return f"{type(error).__name__}: {message}".rstrip(": ")


def new_module(name: str) -> dict[str, Any]:
    """Add an empty module to ``sys.modules`` and return its namespace."""
    sys.modules[name] = types.ModuleType(name)
    return sys.modules[name].__dict__


def execute(source: str, namespace: dict[str, Any]) -> None:
    """Run source text in a namespace."""
    exec(compile_source(source, "exec"), namespace)


def compile_source(source: str, mode: Literal["exec", "eval"]) -> types.CodeType:
    """Return the code of a program or an expression; report text that does not compile.

    The ``__future__`` imports of this file do not apply to the text.
    """
    try:
        return compile(source, "<program>", mode, dont_inherit=True)
    except Exception:
        report({"compiles": False})
        raise


def find_function(namespace: dict[str, Any], name: str) -> Callable[..., Any]:
    """Return the function of a name in a namespace.

    Raises:
        NameError: the namespace has no such function.
    """
    if not callable(namespace.get(name)):
        raise NameError(f"it defines no function {name!r}")
    return namespace[name]  # type: ignore[no-any-return]
