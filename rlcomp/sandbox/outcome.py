"""Outcomes of jobs, computed from facts of the kernel and the reports of programs."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.plain_data import NotPlainData, decode

Status = Literal["passed", "failed", "timeout", "memory", "output", "died", "unsupported"]


@dataclass(frozen=True)
class CallResult:
    """Result of one call of a candidate function.

    Attributes:
        returned: whether the call returned plain data.
        value: the returned value, plain data.
        error: name and message of the exception, or why the value is not plain data; '' if the call
            returned plain data.
    """

    returned: bool
    value: Any = None
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a job.

    Attributes:
        status: ``passed``: the program ended normally, all calls returned or raised, all tests
            passed. ``failed``: an exception outside of the calls, an exit code, a missing call, or
            a failed test. ``timeout``: wall clock or CPU. ``memory``, ``output``: the limit was
            hit. ``died``: killed by a signal. ``unsupported``: an argument or a returned value was
            not plain data. A program can cause each of these statuses. So none of them makes a
            reward invalid: a program could otherwise avoid a low reward.
        message: description of the failure in one line; it may quote the program.
        wall: wall-clock seconds; of two programs the larger number.
        cpu: seconds of the CPU, summed over the programs; 0 from a remote sandbox.
        peak_memory: peak memory in bytes; of two programs the larger number; 0 from a remote
            sandbox.
        stdout: output of a program (``StdioJob``), or of the tests (``CheckJob``).
        calls: results of a ``CallsJob``, in order; fewer if the program ended early.
        tests: whether each test of a ``CheckJob`` passed; fewer if the tests ended early.
        compiles: whether the source of the program (of a ``CheckJob``: the candidate) is Python;
            True also if the program ended before its source was read.
    """

    status: Status
    message: str = ""
    wall: float = 0.0
    cpu: float = 0.0
    peak_memory: int = 0
    stdout: str = ""
    calls: tuple[CallResult, ...] = ()
    tests: tuple[bool, ...] = ()
    compiles: bool = True


@dataclass(frozen=True)
class ProgramResult:
    """Raw result of one program.

    Attributes:
        facts: facts of the kernel: exit ``code``, ``cpu`` and ``wall`` seconds, ``peak`` memory in
            bytes, and ``ended_by`` (``itself``, ``wall`` or ``client``).
        stdout: bytes of standard output.
        stderr: bytes of standard error.
        report: bytes of the report; the program may have written them.
    """

    facts: Mapping[str, Any]
    stdout: bytes
    stderr: bytes
    report: bytes

    def report_lines(self) -> list[dict[str, Any]]:
        """Return the lines of the report, up to the first malformed one."""
        lines = []
        for line in self.report.splitlines():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not isinstance(entry, dict):
                break
            lines.append(entry)
        return lines

    def last_text(self, key: str) -> str:
        """Return the last non-empty value of a key in the report as a text; '' if there is none."""
        words = [str(line[key]) for line in self.report_lines() if line.get(key)]
        return words[-1] if words else ""


def find_failure(result: ProgramResult, limits: Limits) -> tuple[Status, str] | None:
    """Return the status and the message of a failed program; None if it ended normally."""
    facts, code = result.facts, result.facts["code"]
    error = result.last_text("error")
    if facts["ended_by"] == "wall":
        return "timeout", f"not done after {limits.wall:g} s"
    # On a busy machine the kernel may kill a program before its CPU time reaches the limit.
    if code == -signal.SIGKILL and facts["cpu"] >= 0.5 * limits.cpu:
        return "timeout", f"{limits.cpu:g} s of the CPU were not enough"
    # The kernel lets no file exceed the limit, so a full file counts as cut.
    if max(len(result.stdout), len(result.stderr), len(result.report)) >= limits.output:
        return "output", f"more than {limits.output} bytes"
    if code and error.startswith("MemoryError"):
        return "memory", f"more than {limits.memory} bytes"
    if code < 0:
        return "died", f"killed by {_signal_name(-code)}"
    if result.last_text("unsupported"):
        return "unsupported", result.last_text("unsupported")
    if code:
        return "failed", error or f"exit code {code}"
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def stdio_outcome(result: ProgramResult, limits: Limits) -> Outcome:
    """Return the outcome of a ``StdioJob``."""
    status, message = find_failure(result, limits) or ("passed", "")
    return Outcome(status, message, **_usage(result), stdout=result.stdout.decode(errors="replace"))


def calls_outcome(result: ProgramResult, limits: Limits, expected: int) -> Outcome:
    """Return the outcome of a ``CallsJob`` with an expected number of calls."""
    ready, *call_lines = result.report_lines() or [{}]
    calls = tuple(map(_call, call_lines[:expected])) if "ready" in ready else ()
    status, message = find_failure(result, limits) or ("passed", "")
    if status == "passed" and len(calls) < expected:
        status, message = "failed", f"it ended after {len(calls)} of {expected} calls"
    return Outcome(status, message, **_usage(result), calls=calls)


def _call(line: Mapping[str, Any]) -> CallResult:
    if "value" not in line:
        return CallResult(
            False, error=str(line.get("error") or line.get("unsupported") or "no value")
        )
    try:
        return CallResult(True, decode(str(line["value"])))
    except NotPlainData as error:
        return CallResult(False, error=str(error))


def check_outcome(
    candidate: ProgramResult, tests: ProgramResult, *, limits: Limits, num_tests: int
) -> Outcome:
    """Return the outcome of a ``CheckJob``.

    Args:
        candidate: result of the program with the function.
        tests: result of the program with the tests.
        limits: limits of each program.
        num_tests: number of tests in the job.
    """
    verdicts = tuple(line["passed"] for line in tests.report_lines() if "passed" in line)
    used = _usage(candidate, tests) | {"stdout": tests.stdout.decode(errors="replace")}
    # A function ``check`` of the tests adds a verdict to those of the texts.
    if verdicts and len(verdicts) >= num_tests and all(verdicts) and tests.facts["code"] == 0:
        return Outcome("passed", "", **used, tests=verdicts)
    status, message = _failure_reason(candidate, tests, limits)
    return Outcome(status, message, **used, tests=verdicts)


def _failure_reason(
    candidate: ProgramResult, tests: ProgramResult, limits: Limits
) -> tuple[Status, str]:
    # The client stops the candidate when the tests end: this is no failure of the candidate.
    candidate_ended = tests.last_text("error").startswith("CandidateEnded")
    candidate_failure = (
        find_failure(candidate, limits) if candidate.facts["ended_by"] != "client" else None
    )
    test_failure = find_failure(tests, limits)
    # Tests time out when they wait for a candidate that does not answer.
    if candidate_failure and (candidate_ended or (test_failure and test_failure[0] == "timeout")):
        return candidate_failure
    if last_text := tests.last_text("unsupported"):
        return "unsupported", last_text
    if candidate_ended:
        return "failed", "the candidate ended before its tests"
    error = tests.last_text("error")
    if error.startswith("MemoryError"):
        return "memory", error
    return test_failure or ("failed", error or "it ended before all tests")


def _usage(*programs: ProgramResult) -> dict[str, Any]:
    facts = [each.facts for each in programs]
    return {
        "wall": max(each["wall"] for each in facts),
        "cpu": sum(each["cpu"] for each in facts),
        "peak_memory": max(each["peak"] for each in facts),
        "compiles": not any("compiles" in line for line in programs[0].report_lines()),
    }
