"""The main function of a restricted process in the sandbox.

Files: 0 input, 1 output, 2 errors, 3 the report (lines of JSON), 4 and 5 the pipe between a
candidate and its tests. The report cannot be trusted: the program may write to it.
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

from rlcomp.sandbox.execute import MESSAGE, compiled, defined, execute, module, report, told
from rlcomp.sandbox.plain_data import NotPlain, decode, encode
from rlcomp.sandbox.tested import run_candidate, run_tests

LAST_FILE = 5
Request = Mapping[str, Any]


def run(payload: int) -> NoReturn:
    """Read a job from a file, run it and end the process."""
    with open(payload, encoding="utf-8", errors="surrogatepass") as file:
        request = json.load(file)
    do(request)


def do(request: Request) -> NoReturn:
    """Run a job and end the process, without the interpreter's own clean-up."""
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    random.seed(0)  # for reproducible outcomes
    code = 1
    try:
        _KINDS[request["kind"]](request)
        code = _finish(0)
    except SystemExit as leaving:
        code = _finish(_exit_code(leaving))
    except BaseException as error:
        report({"error": told(error)[:MESSAGE]})
    finally:
        _flush()
        os._exit(code)


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return (leaving.code or 0) & 0xFF
    print(leaving.code, file=sys.stderr)
    return 1


def _finish(code: int) -> int:
    """Wait for threads and call exit handlers, as the interpreter would."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return code


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the limit is reached, or the program closed the stream
            continue


def _run_stdio(request: Request) -> None:
    execute(request["source"], module("__main__"))


def _run_calls(request: Request) -> None:
    """Report a line ``ready``, then one a call: ``{"value": text}`` or ``{"error": text}``."""
    function = _function(request)
    report({"ready": True})
    for text in request["inputs"]:
        try:
            line = {"value": encode(function(*decode(text)))}
        except NotPlain as error:
            line = {"unsupported": told(error)[:MESSAGE]}
        except Exception as error:
            line = {"error": told(error)[:MESSAGE]}
        report(line)


def _function(request: Request) -> Callable[..., Any]:
    namespace = module("candidate")
    if not request["names"]:
        execute(request["source"], namespace)
        return defined(namespace, request["entry_point"])
    code = compiled(request["source"].strip(), "eval")
    names = request["names"]
    return lambda *values: eval(code, dict(zip(names, values, strict=True)))


_KINDS: dict[str, Callable[[Request], None]] = {
    "stdio": _run_stdio,
    "calls": _run_calls,
    "candidate": run_candidate,
    "tests": run_tests,
}
