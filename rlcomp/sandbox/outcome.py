"""Outcomes of jobs, from the kernel's facts and the programs' reports."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.plain_data import NotPlain, decode

Status = Literal["passed", "failed", "timeout", "memory", "output", "died", "unsupported"]


@dataclass(frozen=True)
class Call:
    """One call of a candidate: its value or its error.

    Attributes:
        returned: whether it returned a value.
        value: the value, plain data.
        error: name and message of its exception; '' if it returned.
    """

    returned: bool
    value: Any = None
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job.

    Attributes:
        status: ``passed``: the program ended normally, all calls were answered, all tests passed.
            ``failed``: an exception, an exit code, or a failed test. ``timeout``: wall clock or
            CPU. ``memory``, ``output``: the limit was hit. ``died``: killed by a signal.
            ``unsupported``: an argument or a returned value was not plain data. The program causes
            all of them, so none makes a reward invalid: otherwise a program could choose to have
            an invalid reward.
        message: the failure in one line, in a program's own words.
        wall: seconds of the slower of two programs.
        cpu: seconds of the CPU of both programs.
        peak_memory: bytes of the larger program.
        stdout: output of a program (``StdioJob``), or of the tests (``CheckJob``).
        calls: calls of a ``CallsJob``, in order; fewer if it ended early.
        tests: whether each test of a ``CheckJob`` passed; fewer if it ended early.
        compiles: whether the source is Python; for a ``CheckJob`` the candidate's source, unless
            its tests ended before it was read.
    """

    status: Status
    message: str = ""
    wall: float = 0.0
    cpu: float = 0.0
    peak_memory: int = 0
    stdout: str = ""
    calls: tuple[Call, ...] = ()
    tests: tuple[bool, ...] = ()
    compiles: bool = True


@dataclass(frozen=True)
class Ended:
    """The end of one program.

    Attributes:
        facts: facts of the kernel: ``code``, ``cpu``, ``peak``, ``wall``, ``ended_by``.
        stdout: bytes of standard output.
        stderr: bytes of standard error.
        report: bytes of the report, untrusted.
    """

    facts: Mapping[str, Any]
    stdout: bytes
    stderr: bytes
    report: bytes

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of the report, up to the first malformed one."""
        entries = []
        for line in self.report.splitlines():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not isinstance(entry, dict):
                break
            entries.append(entry)
        return entries

    def word(self, key: str) -> str:
        """Return the last text of the report under a key; '' if there is none."""
        words = [str(line[key]) for line in self.lines() if line.get(key)]
        return words[-1] if words else ""


def failure(ended: Ended, limits: Limits) -> tuple[Status, str] | None:
    """Return why a program did not end normally; None if it did."""
    facts, code = ended.facts, ended.facts["code"]
    error = ended.word("error")
    if facts["ended_by"] == "wall":
        return "timeout", f"not done after {limits.wall:g} s"
    # The kernel counts ticks for its limit; on a busy machine it counts more than were used.
    if code == -signal.SIGKILL and facts["cpu"] >= 0.5 * limits.cpu:
        return "timeout", f"{limits.cpu:g} s of the CPU were not enough"
    if max(len(ended.stdout), len(ended.stderr), len(ended.report)) >= limits.output:
        return "output", f"more than {limits.output} bytes"
    if code and error.startswith("MemoryError"):
        return "memory", f"more than {limits.memory} bytes"
    if code < 0:
        return "died", f"killed by {_signal(-code)}"
    if ended.word("unsupported"):
        return "unsupported", ended.word("unsupported")
    if code:
        return "failed", error or f"exit code {code}"
    return None


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def of_stdio(ended: Ended, limits: Limits) -> Outcome:
    """Return the outcome of a program."""
    status, message = failure(ended, limits) or ("passed", "")
    return Outcome(status, message, **_used(ended), stdout=ended.stdout.decode(errors="replace"))


def of_calls(ended: Ended, limits: Limits, expected: int) -> Outcome:
    """Return the outcome of calls."""
    ready, *lines = [*ended.lines(), {}] if ended.lines() else [{}]
    calls = tuple(_call(line) for line in lines[:expected] if line) if "ready" in ready else ()
    status, message = failure(ended, limits) or ("passed", "")
    if status == "passed" and len(calls) < expected:
        status, message = "failed", f"it ended after {len(calls)} of {expected} calls"
    return Outcome(status, message, **_used(ended), calls=calls)


def _call(line: Mapping[str, Any]) -> Call:
    if "value" not in line:
        return Call(False, error=str(line.get("error") or line.get("unsupported") or "no value"))
    try:
        return Call(True, decode(str(line["value"])))
    except NotPlain as error:
        return Call(False, error=str(error))


def of_check(candidate: Ended, tests: Ended, *, limits: Limits, asked: int) -> Outcome:
    """Return the outcome of tests; without results the candidate's end gives the reason."""
    passed = tuple(line["passed"] for line in tests.lines() if "passed" in line)
    used = _used(candidate, tests) | {"stdout": tests.stdout.decode(errors="replace")}
    if passed and len(passed) >= asked and all(passed) and tests.facts["code"] == 0:
        return Outcome("passed", "", **used, tests=passed)
    status, message = _why(candidate, tests, limits)
    return Outcome(status, message, **used, tests=passed)


def _why(candidate: Ended, tests: Ended, limits: Limits) -> tuple[Status, str]:
    lost = tests.word("error").startswith("CandidateEnded")
    first = failure(candidate, limits) if candidate.facts["ended_by"] != "asker" else None
    of_tests = failure(tests, limits)
    if first and (lost or (of_tests and of_tests[0] == "timeout")):
        return first
    if word := tests.word("unsupported"):
        return "unsupported", word
    if lost:
        return "failed", "the candidate ended before its tests"
    error = tests.word("error")
    if error.startswith("MemoryError"):
        return "memory", error
    return of_tests or ("failed", error or "it ended before all tests")


def _used(*programs: Ended) -> dict[str, Any]:
    facts = [each.facts for each in programs]
    return {
        "wall": max(each["wall"] for each in facts),
        "cpu": sum(each["cpu"] for each in facts),
        "peak_memory": max(each["peak"] for each in facts),
        "compiles": not any("compiles" in line for line in programs[0].lines()),
    }
