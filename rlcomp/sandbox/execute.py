"""Running source text in a sandboxed process, and its report."""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Callable
from typing import Any, Literal

from rlcomp.sandbox.plain_data import NotPlain

REPORT = 3  # the file
MARK = b""  # before each line
MESSAGE = 500  # characters of an error


def report(line: object) -> None:
    """One line of the report."""
    os.write(REPORT, MARK + json.dumps(line).encode() + b"\n")


def told(error: BaseException) -> str:
    """An error in a line: its name and message."""
    words = " ".join(str(error).split())
    return words if isinstance(error, NotPlain) else f"{type(error).__name__}: {words}".rstrip(": ")


def module(name: str) -> dict[str, Any]:
    """The namespace of a new module."""
    made = sys.modules[name] = types.ModuleType(name)
    return made.__dict__


def execute(source: str, namespace: dict[str, Any]) -> None:
    """Run source text."""
    exec(compiled(source, "exec"), namespace)


def compiled(source: str, mode: Literal["exec", "eval"]) -> types.CodeType:
    """The code of source text: a program's, or an expression's; reports what does not compile.

    This file's own ``__future__`` imports are none of the text's.
    """
    try:
        return compile(source, "<program>", mode, dont_inherit=True)
    except Exception:
        report({"compiles": False})
        raise


def defined(namespace: dict[str, Any], name: str) -> Callable[..., Any]:
    """The function of that name."""
    if not callable(namespace.get(name)):
        raise NameError(f"it defines no function {name!r}")
    return namespace[name]  # type: ignore[no-any-return]
