"""Main function of a restricted process in the sandbox.

File descriptors: 0 input, 1 output, 2 errors, 3 the report (lines of JSON), 4 and 5 the incoming
and the outgoing pipe between a candidate and its tests. The report is untrusted, because the
program may write to it.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from rlcomp.sandbox.candidate_tests import run_candidate, run_tests
from rlcomp.sandbox.execute import (
    MAX_MESSAGE,
    compile_source,
    describe_error,
    execute,
    find_function,
    new_module,
    report,
)
from rlcomp.sandbox.plain_data import NotPlainData, decode, encode

LAST_FILE = 5
Request = Mapping[str, Any]


def run(file_descriptor: int) -> NoReturn:
    """Read a request from a file descriptor, run its program and end the process."""
    with open(file_descriptor, encoding="utf-8", errors="surrogatepass") as file:
        request = json.load(file)
    run_request(request)


def run_request(request: Request) -> NoReturn:
    """Run the program of a request and end the process without the interpreter's clean-up.

    Threads and exit handlers end first, unless the program raises another exception than
    ``SystemExit``.
    """
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    random.seed(0)  # for reproducible outcomes
    code = 1
    try:
        _KINDS[request["kind"]](request)
        _run_exit_steps()
        code = 0
    except SystemExit as exit_error:
        exit_code = _exit_code(exit_error)
        _run_exit_steps()
        code = exit_code
    except BaseException as error:
        report({"error": describe_error(error)[:MAX_MESSAGE]})
    finally:
        _flush()
        os._exit(code)


def _exit_code(exit_error: SystemExit) -> int:
    if exit_error.code is None or isinstance(exit_error.code, int):
        return (exit_error.code or 0) & 0xFF
    print(exit_error.code, file=sys.stderr)
    return 1


def _run_exit_steps() -> None:
    """Wait for threads, and call the exit handlers, as the interpreter would."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the limit is reached, or the program closed the stream
            continue


def _run_calls(request: Request) -> None:
    """Report ``{"ready": true}``, then a line for each call.

    A line is ``{"value": text}``, ``{"error": text}`` or ``{"unsupported": text}``.
    """
    function = _function(request)
    report({"ready": True})
    for text in request["inputs"]:
        try:
            line = {"value": encode(function(*decode(text)))}
        except NotPlainData as error:
            line = {"unsupported": describe_error(error)[:MAX_MESSAGE]}
        except Exception as error:
            line = {"error": describe_error(error)[:MAX_MESSAGE]}
        report(line)


def _function(request: Request) -> Callable[..., Any]:
    namespace = new_module("candidate")
    if not request["names"]:
        execute(request["source"], namespace)
        return find_function(namespace, request["entry_point"])
    code = compile_source(request["source"].strip(), "eval")
    names = request["names"]
    return lambda *values: eval(code, dict(zip(names, values, strict=True)))


_KINDS: dict[str, Callable[[Request], None]] = {
    "stdio": lambda request: execute(request["source"], new_module("__main__")),
    "calls": _run_calls,
    "candidate": run_candidate,
    "tests": run_tests,
}
