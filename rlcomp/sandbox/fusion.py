"""Requests and answers of SandboxFusion's ``POST /run_code``.

The code around a program (:mod:`rlcomp.sandbox.program`) is sent along as text, so that a program
runs as in the local sandbox. Its report goes to standard error; a nonce at the start of each line
tells the report from the program's output. As in the local sandbox, the report is untrusted: the
program may have written it.

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

from rlcomp.sandbox.http_post import NoAnswer
from rlcomp.sandbox.job import MEBIBYTE, CallsJob, Limits, StdioJob
from rlcomp.sandbox.outcome import Outcome, ProgramResult, calls_outcome, stdio_outcome
from rlcomp.sandbox.running_job import request_of

_MODULES = ("plain_data", "execute", "candidate_tests", "program")
_START = """\
import json, sys, types
texts, prefix, request = json.loads({!a})
del sys.path[0]
sys.argv[:] = ["program"]
for name in ("rlcomp", "rlcomp.sandbox", *texts):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(texts.get(name, ""), name, "exec"), module.__dict__)
from rlcomp.sandbox import execute, program
execute.REPORT_FILE, execute.LINE_PREFIX = 2, prefix.encode()
program.run_request(request)
"""


def request_body(job: StdioJob | CallsJob, nonce: str) -> bytes:
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
    folder = resources.files("rlcomp.sandbox")
    return {
        f"rlcomp.sandbox.{name}": (folder / f"{name}.py").read_text(encoding="utf-8")
        for name in _MODULES
    }


def max_answer_bytes(limits: Limits) -> int:
    """Return the maximum size of an answer in bytes.

    An answer has two outputs, and JSON may write a byte of an output as six.
    """
    return 12 * limits.output + 64 * 1024


def outcome_of(job: StdioJob | CallsJob, nonce: str, answer: bytes) -> Outcome:
    """Return the outcome of a job from the server's answer; ``output`` if the answer is too long.

    Raises:
        NoAnswer: the answer is malformed, or says that the server failed.
    """
    if len(answer) > max_answer_bytes(job.limits):
        return Outcome("output", f"more than {job.limits.output} bytes")
    result = _read_result(_read_run_result(answer), nonce)
    if isinstance(job, StdioJob):
        return stdio_outcome(result, job.limits)
    return calls_outcome(result, job.limits, len(job.inputs))


def _read_run_result(answer: bytes) -> dict[str, Any]:
    """Return the field ``run_result`` of the server's answer."""
    try:
        reply = json.loads(answer, parse_int=_parse_int)
    except (ValueError, RecursionError) as error:
        raise NoAnswer(f"its answer is not JSON: {answer!r:.80}") from error
    reply = reply if isinstance(reply, dict) else {}
    result = reply.get("run_result")
    if reply.get("status") not in ("Success", "Failed") or not isinstance(result, dict):
        words = (reply.get(name) for name in ("status", "message"))
        raise NoAnswer("it ran no program: " + ", ".join(f"{word!r:.200}" for word in words))
    return result


def _parse_int(text: str) -> int:
    """Return an integer of at most 20 characters; parsing longer ones would take long."""
    if len(text) > 20:
        raise ValueError("a number of more than 20 digits")
    return int(text)


def _read_result(result: dict[str, Any], nonce: str) -> ProgramResult:
    fields = {name: value for name, value in result.items() if value is not None}
    status, wall = fields.get("status"), fields.get("execution_time", 0.0)
    timed_out = status == "TimeLimitExceeded"
    code = -signal.SIGKILL if timed_out else fields.get("return_code")
    texts = [fields.get(name, "") for name in ("stdout", "stderr")]
    has_ended = timed_out or (status == "Finished" and type(code) is int)
    has_wall_time = type(wall) in (int, float) and 0 <= wall < math.inf
    if not has_ended or not has_wall_time or {*map(type, texts)} != {str}:
        raise NoAnswer(f"it does not say how the program ended: {result!r:.200}")
    stdout, stderr = (text.encode(errors="replace") for text in texts)
    # The server does not report the time of the CPU and the memory.
    facts = {"code": code, "cpu": 0.0, "peak": 0, "wall": wall}
    facts["ended_by"] = "wall" if timed_out else "itself"
    mark = nonce.encode()
    report_lines = [line for line in stderr.split(b"\n") if line.startswith(mark)]
    return ProgramResult(
        facts, stdout, stderr, b"\n".join(line[len(mark) :] for line in report_lines)
    )
