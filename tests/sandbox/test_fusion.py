"""SandboxFusion's protocol: what is asked for a job, and which answers are taken for what."""

import json
import math
import subprocess
import sys

import pytest

from rlcomp.sandbox import fusion
from rlcomp.sandbox.http_post import NoAnswer
from rlcomp.sandbox.job import MEBIBYTE, CallsJob, Limits, StdioJob
from rlcomp.sandbox.outcome import CallResult
from rlcomp.sandbox.plain_data import encode

PROGRAM = StdioJob("print(input())", "é\ud800\n", Limits(wall=2.5, memory=100 * MEBIBYTE + 1))
CALLS = CallsJob("def f(a): return a", (encode((1,)), encode((2,))), "f", limits=Limits(output=100))
NONCE = "a1b2"
RUN = {"status": "Finished", "execution_time": 0.25, "return_code": 0, "stdout": "", "stderr": ""}


def answer(top="Success", **result):
    return json.dumps({"status": top, "message": "", "run_result": {**RUN, **result}}).encode()


def read(job=PROGRAM, top="Success", **result):
    return fusion.outcome_of(job, NONCE, answer(top, **result))


def test_what_is_asked():
    body = json.loads(fusion.request_body(PROGRAM, NONCE))

    code = body.pop("code")
    assert body == {
        "language": "python",
        "stdin": "é?\n",  # half of a character cannot be sent
        "run_timeout": 2.5,
        "compile_timeout": 2.5,
        "memory_limit_MB": 101,  # rounded up
    }
    assert code.isascii()  # whatever the server takes for its locale
    assert json.loads(fusion.request_body(CALLS, NONCE))["stdin"] == ""


def ran(job, nonce):
    """What the code that is sent writes here: two texts and the exit code."""
    body = json.loads(fusion.request_body(job, nonce))
    words = [sys.executable, "-I", "-c", body["code"]]
    done = subprocess.run(words, input=body["stdin"], capture_output=True, text=True)
    return done.stdout, done.stderr, done.returncode


def test_output_is_the_programs_and_the_report_goes_behind_the_nonce():
    stdout, stderr, code = ran(
        StdioJob("import sys\nprint(input()); sys.stderr.write('x')\n1 / 0", "5"), NONCE
    )

    assert (stdout, code) == ("5\n", 1)
    assert stderr == '\na1b2{"error": "ZeroDivisionError: division by zero"}\nx'


def test_values_are_plain_data():
    stdout, stderr, code = ran(CALLS, NONCE)

    assert (stdout, code) == ("", 0)
    assert stderr == '\na1b2{"ready": true}\n\na1b2{"value": "1"}\n\na1b2{"value": "2"}\n'


def test_a_program_finds_the_standard_library():
    source = (
        "import random, sys\nprint(random.random(), sys.argv, __name__, sys.path[0] != '')\n"
        "print(sys.modules['__main__'].__dict__ is globals(), 'texts' in globals())"
    )

    stdout, _, _ = ran(StdioJob(source), NONCE)

    # The first number after random.seed(0).
    assert stdout.splitlines() == ["0.8444218515250481 ['program'] __main__ True", "True False"]


def test_a_run_that_ended_well():
    outcome = read(stdout="42\n")

    assert (outcome.status, outcome.stdout, outcome.wall) == ("passed", "42\n", 0.25)
    assert (outcome.cpu, outcome.peak_memory) == (0, 0)


@pytest.mark.parametrize(
    ("result", "status", "message"),
    [
        ({"return_code": 3}, "failed", "exit code 3"),
        ({"return_code": -11}, "died", "killed by SIGSEGV"),
        ({"return_code": -9}, "died", "killed by SIGKILL"),
        ({"return_code": 1, "stderr": '\na1b2{"error": "KeyError: 1"}\n'}, "failed", "KeyError: 1"),
        ({"return_code": 1, "stderr": '\na1b2{"error": "MemoryError"}'}, "memory", f"more than {100 * MEBIBYTE + 1} bytes"),
        ({"status": "TimeLimitExceeded", "return_code": None}, "timeout", "not done after 2.5 s"),
        ({"status": "TimeLimitExceeded", "return_code": 0}, "timeout", "not done after 2.5 s"),
        ({"stdout": "x" * MEBIBYTE}, "output", f"more than {MEBIBYTE} bytes"),
        ({"stderr": "x" * MEBIBYTE}, "output", f"more than {MEBIBYTE} bytes"),
        ({"return_code": 1, "stderr": 'a1b3{"error": "not ours"}\n x a1b2{"error": "nor"}'}, "failed", "exit code 1"),
    ],
)  # fmt: skip
def test_a_run_that_did_not(result, status, message):
    outcome = read(top="Failed", **result)

    assert (outcome.status, outcome.message) == (status, message)
    assert outcome.compiles


def test_a_test_file_that_does_not_parse_is_refused():
    stderr = '\na1b2{"compiles": false}\n\na1b2{"error": "SyntaxError: invalid syntax"}\n'

    outcome = read(top="Failed", return_code=1, stderr=stderr)

    assert (outcome.message, outcome.compiles) == ("SyntaxError: invalid syntax", False)


def test_results_are_read_from_the_report_of_a_program():
    stderr = 'noise\na1b2{"ready": true}\nhalf a line\na1b2{"value": "[\\"tuple\\",1]"}\na1b2{"error": "E"}\n'

    outcome = read(CALLS, stderr=stderr)

    assert outcome.calls == (CallResult(True, (1,)), CallResult(False, error="E"))


def test_missing_texts_and_times_are_empty():
    outcome = read(stdout=None, stderr=None, execution_time=None)

    assert (outcome.status, outcome.wall) == ("passed", 0)


def test_an_answer_that_is_too_long_is_the_programs_doing():
    most = fusion.max_answer_bytes(CALLS.limits)
    assert most == 12 * 100 + 65536

    assert fusion.outcome_of(CALLS, NONCE, b"x" * (most + 1)).status == "output"
    with pytest.raises(NoAnswer):  # one that is not is read
        fusion.outcome_of(CALLS, NONCE, b"x" * most)


@pytest.mark.parametrize(
    "said",
    [
        b"", b"<html>", b"\xff", b"[" * 100_000, b"[]", b"null", b"3", b"{}", b'"Success"',
        b'{"status": "Success", "run_result": null}',
        b'{"status": "Success", "run_result": []}',
        b'{"status": ["Success"], "run_result": {}}',
        b'{"status": "SandboxError", "message": "no", "run_result": {"status": "Finished", "return_code": 0}}',
        b'{"status": "Success", "run_result": {"status": "Finished", "return_code": ' + b"1" * 21 + b"}}",
    ],
)  # fmt: skip
def test_a_malformed_answer_is_no_answer(said):
    with pytest.raises(NoAnswer):
        fusion.outcome_of(PROGRAM, NONCE, said)


@pytest.mark.parametrize(
    "result",
    [
        {"status": "Error"}, {"status": None}, {"status": ["Finished"]}, {"return_code": None}, {"return_code": True},
        {"return_code": "0"}, {"return_code": 0.0}, {"stdout": ["42"]}, {"stdout": 42}, {"stderr": {}},
        {"stdout": False}, {"execution_time": "1"}, {"execution_time": -1}, {"execution_time": math.inf},
        {"execution_time": math.nan}, {"execution_time": True},
    ],
)  # fmt: skip
def test_an_end_that_is_none_is_lost(result):
    with pytest.raises(NoAnswer, match="it does not say how the program ended"):
        read(**result)


def test_the_answer_of_the_server_is_cut_and_escaped():
    with pytest.raises(NoAnswer, match=r"it ran no program: 'SandboxError', '\\x1b\[2J") as lost:
        fusion.outcome_of(
            PROGRAM,
            NONCE,
            b'{"status": "SandboxError", "message": "\\u001b[2J' + b"x" * 900 + b'"}',
        )

    assert len(str(lost.value)) < 400


def test_numbers_of_twenty_digits_are_read():
    assert read(return_code=10**19).message == f"exit code {10**19}"
