"""Execution of source text in a sandboxed process, and its report."""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Callable
from typing import Any, Literal

from rlcomp.sandbox.plain_data import NotPlain

REPORT = 3  # file descriptor
MARK = b""  # before each line
MESSAGE = 500  # characters of an error


def report(line: object) -> None:
    """Write one line of the report."""
    os.write(REPORT, MARK + json.dumps(line).encode() + b"\n")


def told(error: BaseException) -> str:
    """Return an error in one line: its name and message."""
    words = " ".join(str(error).split())
    return words if isinstance(error, NotPlain) else f"{type(error).__name__}: {words}".rstrip(": ")


def module(name: str) -> dict[str, Any]:
    """Add a new module and return its namespace."""
    new = sys.modules[name] = types.ModuleType(name)
    return new.__dict__


def execute(source: str, namespace: dict[str, Any]) -> None:
    """Run source text."""
    exec(compiled(source, "exec"), namespace)


def compiled(source: str, mode: Literal["exec", "eval"]) -> types.CodeType:
    """Compile source text, a program or an expression; report text that does not compile.

    The ``__future__`` imports of this file do not apply to the text.
    """
    try:
        return compile(source, "<program>", mode, dont_inherit=True)
    except Exception:
        report({"compiles": False})
        raise


def defined(namespace: dict[str, Any], name: str) -> Callable[..., Any]:
    """Return the function of that name."""
    if not callable(namespace.get(name)):
        raise NameError(f"it defines no function {name!r}")
    return namespace[name]  # type: ignore[no-any-return]
