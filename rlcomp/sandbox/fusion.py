"""Requests and answers of SandboxFusion's ``POST /run_code``.

The code around a program (:mod:`rlcomp.sandbox.program`) is sent along as text, so that a program
runs as in the local sandbox. Its report goes to standard error; a nonce before each line marks it
off from the program's output. As in the local sandbox, the report cannot be trusted: the program
may have written it.

Source:
    github.com/bytedance/SandboxFusion, ``sandbox/server/sandbox_api.py``.
"""

from __future__ import annotations

import json
import math
import signal
from functools import cache
from importlib import resources
from typing import Any

from rlcomp.sandbox.http_post import Lost
from rlcomp.sandbox.job import MEBIBYTE, CallsJob, Limits, StdioJob
from rlcomp.sandbox.outcome import Ended, Outcome, of_calls, of_stdio
from rlcomp.sandbox.running import request_of

_MODULES = ("plain_data", "execute", "messages", "tested", "program")
_START = """\
import json, sys, types
texts, mark, request = json.loads({!a})
del sys.path[0]
sys.argv[:] = ["program"]
for name in ("rlcomp", "rlcomp.sandbox", *texts):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(texts.get(name, ""), name, "exec"), module.__dict__)
from rlcomp.sandbox import execute, program
execute.REPORT, execute.MARK = 2, mark.encode()
program.do(request)
"""


def asked(job: StdioJob | CallsJob, nonce: str) -> bytes:
    """Return the body of the request for a job."""
    request = [_texts(), f"\n{nonce}", request_of(job)]
    stdin = job.stdin if isinstance(job, StdioJob) else ""
    body = {
        "language": "python",
        "code": _START.format(json.dumps(request)),
        "stdin": stdin.encode(errors="replace").decode(),
        "run_timeout": job.limits.wall,
        "compile_timeout": job.limits.wall,
        "memory_limit_MB": math.ceil(job.limits.memory / MEBIBYTE),
    }
    return json.dumps(body).encode()


@cache
def _texts() -> dict[str, str]:
    here = resources.files("rlcomp.sandbox")
    return {
        f"rlcomp.sandbox.{name}": (here / f"{name}.py").read_text(encoding="utf-8")
        for name in _MODULES
    }


def most_bytes(limits: Limits) -> int:
    """Return the most bytes of an answer: JSON may write a byte of output or errors as six."""
    return 12 * limits.output + 64 * 1024


def outcome_of(job: StdioJob | CallsJob, nonce: str, answer: bytes) -> Outcome:
    """Return the outcome of a job from the answer.

    Raises:
        Lost: the answer is malformed, or says that the server failed.
    """
    if len(answer) > most_bytes(job.limits):
        return Outcome("output", f"more than {job.limits.output} bytes")
    ended = _ended(_result(answer), nonce)
    if isinstance(job, StdioJob):
        return of_stdio(ended, job.limits)
    return of_calls(ended, job.limits, len(job.inputs))


def _result(answer: bytes) -> dict[str, Any]:
    """Return the result of the program's run."""
    try:
        reply = json.loads(answer, parse_int=_int)
    except (ValueError, RecursionError) as error:
        raise Lost(f"its answer is no JSON: {answer!r:.80}") from error
    reply = reply if isinstance(reply, dict) else {}
    result = reply.get("run_result")
    if reply.get("status") not in ("Success", "Failed") or not isinstance(result, dict):
        words = (reply.get(name) for name in ("status", "message"))
        raise Lost("it ran no program: " + ", ".join(f"{word!r:.200}" for word in words))
    return result


def _int(text: str) -> int:
    """Read an integer; refuse a long one, which would take long."""
    if len(text) > 20:
        raise ValueError("a number of more than 20 digits")
    return int(text)


def _ended(result: dict[str, Any], nonce: str) -> Ended:
    fields = {name: value for name, value in result.items() if value is not None}
    status, wall = fields.get("status"), fields.get("execution_time", 0.0)
    late = status == "TimeLimitExceeded"
    code = -signal.SIGKILL if late else fields.get("return_code")
    texts = [fields.get(name, "") for name in ("stdout", "stderr")]
    has_ended = late or (status == "Finished" and type(code) is int)
    timed = type(wall) in (int, float) and 0 <= wall < math.inf
    if not has_ended or not timed or {*map(type, texts)} != {str}:
        raise Lost(f"it tells no end of a program: {result!r:.200}")
    stdout, stderr = (text.encode(errors="replace") for text in texts)
    facts = {"code": code, "cpu": 0.0, "peak": 0, "wall": wall}
    facts["ended_by"] = "wall" if late else "itself"
    mark = nonce.encode()
    lines = [line for line in stderr.split(b"\n") if line.startswith(mark)]
    return Ended(facts, stdout, stderr, b"\n".join(line[len(mark) :] for line in lines))
