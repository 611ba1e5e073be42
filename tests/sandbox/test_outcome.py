"""What is made of the kernel's facts and a program's own words."""

import pytest

from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.outcome import (
    CallResult,
    ProgramResult,
    calls_outcome,
    check_outcome,
    find_failure,
    stdio_outcome,
)

FACTS = {"code": 0, "cpu": 0.5, "peak": 1000, "wall": 0.7, "ended_by": "itself"}
LIMITS = Limits(wall=2.5, cpu=3, output=10000)


def ended(report=b"", stdout=b"", stderr=b"", **facts):
    return ProgramResult(FACTS | facts, stdout, stderr, report)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (ended(), None),
        (ended(b'{"error": "E: x"}', code=1), ("failed", "E: x")),
        (ended(b'{"error": "E: x"}\n{"error": "F: y"}\n', code=1), ("failed", "F: y")),
        (ended(b'{"error": "E: x"}\noops\n{"error": "F: y"}\n', code=1), ("failed", "E: x")),
        (ended(b'[1]\n{"error": "F: y"}\n', code=2), ("failed", "exit code 2")),
        (ended(b"[" * 9000, code=2), ("failed", "exit code 2")),
        (ended(code=-9, ended_by="wall"), ("timeout", "not done after 2.5 s")),
        (ended(code=-9, cpu=1.5), ("timeout", "3 s of the CPU were not enough")),
        (ended(code=-9, cpu=1.4), ("died", "killed by SIGKILL")),
        (ended(code=-11, cpu=2.9), ("died", "killed by SIGSEGV")),
        (ended(stdout=b"x" * 9999), None),
        (ended(stdout=b"x" * 10000), ("output", "more than 10000 bytes")),
        (ended(stderr=b"x" * 10000, code=1), ("output", "more than 10000 bytes")),
        (ended(report=b"x" * 10000), ("output", "more than 10000 bytes")),
        (
            ended(b'{"error": "MemoryError"}', code=1),
            ("memory", f"more than {LIMITS.memory} bytes"),
        ),
        (ended(b'{"error": "MemoryError"}', code=0), None),
        (ended(b'{"unsupported": "x is not plain data"}'), ("unsupported", "x is not plain data")),
    ],
)
def test_why_a_program_failed(program, expected):
    assert find_failure(program, LIMITS) == expected


def test_a_program_has_output_and_usage():
    outcome = stdio_outcome(ended(stdout=b"a\xff"), LIMITS)

    assert (outcome.status, outcome.stdout) == ("passed", "a�")
    assert (outcome.wall, outcome.cpu, outcome.peak_memory) == (0.7, 0.5, 1000)


READY = b'{"ready": true}\n'


@pytest.mark.parametrize(
    ("report", "num_tests", "status", "calls"),
    [
        (READY + b'{"value": "5"}\n', 1, "passed", (CallResult(True, 5),)),
        (READY, 0, "passed", ()),
        (READY + b'{"value": "5"}\n', 2, "failed", (CallResult(True, 5),)),
        (READY + b'{"value": "5"}\n{"value": "6"}\n', 1, "passed", (CallResult(True, 5),)),
        (READY + b'{"error": "E: x"}\n', 1, "passed", (CallResult(False, error="E: x"),)),
        (READY + b'{"value": 5}\n{}\n', 1, "passed", (CallResult(True, 5),)),
        (
            READY + b'{"value": "[]"}\n',
            1,
            "passed",
            (CallResult(False, error="not a value: ValueError"),),
        ),
        (READY + b'{"other": 1}\n', 1, "passed", (CallResult(False, error="no value"),)),
        (b'{"value": "5"}\n', 1, "failed", ()),
        (b"", 1, "failed", ()),
    ],
)
def test_calls_are_read_from_the_report(report, num_tests, status, calls):
    outcome = calls_outcome(ended(report), LIMITS, num_tests)

    assert (outcome.status, outcome.calls) == (status, calls)


PASSED, FAILED = b'{"passed": true, "error": ""}\n', b'{"passed": false, "error": "E: x"}\n'
LOST = b'{"error": "CandidateEnded"}\n'
CLIENT = {"code": -9, "ended_by": "client"}


@pytest.mark.parametrize(
    ("candidate", "tests", "num_tests", "expected"),
    [
        (ended(**CLIENT), ended(PASSED + PASSED), 2, ("passed", "")),
        (ended(**CLIENT), ended(PASSED + PASSED), 1, ("passed", "")),
        (ended(**CLIENT), ended(PASSED), 2, ("failed", "it ended before all tests")),
        (ended(**CLIENT), ended(), 0, ("failed", "it ended before all tests")),
        (ended(**CLIENT), ended(PASSED, code=1), 1, ("failed", "exit code 1")),
        (ended(**CLIENT), ended(PASSED + FAILED), 2, ("failed", "E: x")),
        (ended(**CLIENT), ended(b'{"error": "MemoryError"}', code=1), 1, ("memory", None)),
        (ended(code=-11), ended(LOST, code=1), 1, ("died", "killed by SIGSEGV")),
        (ended(), ended(LOST, code=1), 1, ("failed", "the candidate ended before its tests")),
        (ended(code=-9, ended_by="wall"), ended(code=-9, ended_by="wall"), 1, ("timeout", None)),
        (
            ended(code=-9, cpu=3),
            ended(code=-9, ended_by="wall"),
            1,
            ("timeout", "3 s of the CPU were not enough"),
        ),
        (ended(**CLIENT), ended(code=-9, ended_by="wall"), 1, ("timeout", "not done after 2.5 s")),
        (
            ended(PASSED * 3, code=0),
            ended(LOST, code=1),
            1,
            ("failed", "the candidate ended before its tests"),
        ),
        (
            ended(**CLIENT),
            ended(b'{"unsupported": "no"}\n' + LOST, code=1),
            1,
            ("unsupported", "no"),
        ),
        (ended(code=-11), ended(FAILED, code=0), 1, ("failed", "E: x")),
    ],
)
def test_the_tests_have_the_word_and_the_candidate_the_blame(candidate, tests, num_tests, expected):
    outcome = check_outcome(candidate, tests, limits=LIMITS, num_tests=num_tests)

    assert outcome.status == expected[0]
    assert expected[1] in (None, outcome.message)


def test_the_usage_of_two_programs_is_combined():
    one, other = ended(cpu=1.0, wall=0.2, peak=5), ended(PASSED, cpu=0.25, wall=0.5, peak=3)

    outcome = check_outcome(one, other, limits=LIMITS, num_tests=1)

    assert (outcome.cpu, outcome.wall, outcome.peak_memory) == (1.25, 0.5, 5)
