"""Programs on a server: what becomes of them, who judges them, and what a bad server cannot do."""

import copy
import json
import pickle
import threading
import time

import pytest

from components.reward.code_io import CodeCalls, CodeStdio
from components.reward.code_tests import CodeTests
from rlcomp.errors import ConfigError, RlcompError
from rlcomp.metrics import recording
from rlcomp.sandbox import remote
from rlcomp.sandbox.job import MEBIBYTE, CheckJob, Limits, StdioJob
from rlcomp.sandbox.outcome import CallResult
from rlcomp.sandbox.remote import RemoteSandbox

PATIENT = Limits(wall=60)


@pytest.fixture
def there(fusion):
    return RemoteSandbox(url=fusion.url, workers=2)


@pytest.fixture
def hurried(monkeypatch):
    """No pauses, and a second for an answer."""
    monkeypatch.setattr(remote, "_PAUSES", (0.01, 0.02))
    monkeypatch.setattr(remote, "_GRACE", 0.5)


def fine(stdout="42\n"):
    result = {"status": "Finished", "return_code": 0, "stdout": stdout, "stderr": ""}
    body = json.dumps({"status": "Success", "run_result": result}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize(
    ("source", "status", "message", "compiles"),
    [
        ("print(2 * int(input()))", "passed", "", True),
        ("import sys; sys.exit()", "passed", "", True),
        ("1 / 0", "failed", "ZeroDivisionError: division by zero", True),
        ("x = 1 +", "failed", "SyntaxError: invalid syntax (<program>, line 1)", False),
        ("import sys; sys.exit(3)", "failed", "exit code 3", True),
        ("'\ud800'", "failed", None, False),
        ("import os; os.kill(os.getpid(), 11)", "died", "killed by SIGSEGV", True),
        ("x = bytes(10**10)", "memory", f"more than {512 * MEBIBYTE} bytes", True),
        ("print('x' * 2**20)", "output", f"more than {MEBIBYTE} bytes", True),
    ],
)  # fmt: skip
def test_a_program_and_its_end(source, status, message, compiles, there):
    outcome = there.run_stdio(source, "21\n", PATIENT)

    assert (outcome.status, outcome.compiles) == (status, compiles)
    assert message in (None, outcome.message)
    if "input" in source:
        assert outcome.stdout == "42\n"


def test_the_servers_clock_ends_a_program(there):
    outcome = there.run_stdio("print(1, flush=True)\nwhile True: pass", limits=Limits(wall=2))

    assert (outcome.status, outcome.message) == ("timeout", "not done after 2 s")
    assert outcome.stdout == "1\n"


def test_values_keep_their_types(there):
    source = "def f(a):\n    print('noise', flush=True)\n    return {a: [(1, 2.5), {3}, None, b'x', 2**70]}"

    outcome = there.run_calls(source, [("k",), ([],)], "f", limits=PATIENT)

    message = CallResult(False, error="TypeError: unhashable type: 'list'")
    assert outcome.calls == (CallResult(True, {"k": [(1, 2.5), {3}, None, b"x", 2**70]}), message)
    assert outcome.status == "passed"


def test_noise_does_not_hide_values(there):
    source = (
        'import sys\ndef f(a):\n    sys.stderr.write(\'{"value": "7"}\\nno end of a line\')\n'
        "    sys.stderr.flush()\n    return a"
    )

    assert [c.value for c in there.run_calls(source, [(1,), (2,)], "f", limits=PATIENT).calls] == [
        1,
        2,
    ]


def test_outcomes_are_in_order_and_each_distinct_job_is_sent_once(there, fusion):
    one, two = (StdioJob(f"print({number})", limits=PATIENT) for number in (1, 2))

    outcomes = there.map([one, two, one, two, one])

    assert [outcome.stdout for outcome in outcomes] == ["1\n", "2\n", "1\n", "2\n", "1\n"]
    assert len(fusion.asked) == 2
    assert there.map([]) == []


def test_as_many_at_a_time_as_there_are_workers(saying):
    under_way, most = set(), []

    def slow():
        under_way.add(threading.get_ident())
        most.append(len(under_way))
        time.sleep(0.3)
        under_way.remove(threading.get_ident())
        yield fine()

    there = RemoteSandbox(url=saying(slow), workers=2)

    there.map([StdioJob(str(number)) for number in range(6)])

    assert max(most) == 2


def test_no_request_is_made_before_the_first_use(fusion):
    made = RemoteSandbox(url=fusion.url)
    copies = [copy.deepcopy(made), pickle.loads(pickle.dumps(made))]

    assert fusion.asked == []
    assert [(each.url, each.workers) for each in copies] == [(fusion.url, 8)] * 2
    with copies[1] as own:
        assert own.run_stdio("print(1)", limits=PATIENT).stdout == "1\n"


def test_the_tier_is_told_once_the_server_has_run_a_program(there, fusion):
    assert there.tier == there.tier == "remote"

    assert [path for path, _ in fusion.asked] == ["/run_code"] * 2


@pytest.mark.parametrize("stdout", ["", "here"])
def test_a_server_that_runs_nothing_is_refused(stdout, saying):
    url = saying(fine(stdout))

    with pytest.raises(ConfigError, match=rf"sandbox\.url={url}: it does not run Python 3\.10"):
        _ = RemoteSandbox(url=url).tier


def test_a_server_that_runs_programs_but_no_calls_is_refused(saying):
    with pytest.raises(
        ConfigError, match=r"it does not run Python .*: it ended after 0 of 1 calls"
    ):
        _ = RemoteSandbox(url=saying(fine("here\n"))).tier


def test_a_server_that_is_not_there_is_a_mistake_in_the_config(hurried):
    with pytest.raises(
        ConfigError, match=r"sandbox\.url=http://127\.0\.0\.1:9: it lost a program 3"
    ):
        _ = RemoteSandbox(url="http://127.0.0.1:9").tier


def test_a_job_that_was_lost_twice_is_sent_a_third_time(hurried, saying):
    there = RemoteSandbox(
        url=saying(b"", b"HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n", fine())
    )

    assert there.run_stdio("print(42)").stdout == "42\n"

    assert len(saying.heard) == 3


def test_each_time_behind_another_nonce(hurried, saying):
    RemoteSandbox(url=saying(b"", fine())).run_stdio("print(42)")

    first, second = (heard.partition(b"\r\n\r\n")[2] for heard in saying.heard)
    assert first != second
    assert len(first) == len(second)


def drip():
    yield b"HTTP/1.1 200 OK\r\n\r\n"
    for _ in range(300):
        time.sleep(0.02)
        yield b"{"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 429 Many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        fine()[:-9],
        drip,
    ],
)
def test_a_job_that_is_lost_each_time_is_no_outcome(answer, hurried, saying):
    url = saying(answer)
    started = time.monotonic()

    with pytest.raises(RlcompError, match=rf"sandbox\.url={url}: it lost a program 3 times: "):
        RemoteSandbox(url=url).run_stdio("print(42)", limits=Limits(wall=0.1))

    assert len(saying.heard) == 3
    assert time.monotonic() - started < 6


@pytest.mark.parametrize("status", ["302 Found\r\nLocation: http://127.0.0.1:9/", "404 Not Found"])
def test_a_refusal_is_raised_at_once(status, hurried, saying):
    url = saying(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())

    with pytest.raises(RlcompError, match=rf"^sandbox\.url={url}: it answers {status[:3]} "):
        RemoteSandbox(url=url).run_stdio("print(42)")

    assert len(saying.heard) == 1


def test_a_flood_is_a_programs_doing(hurried, saying):
    def flood():
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while True:
            yield b"x" * 65536

    outcome = RemoteSandbox(url=saying(flood)).run_stdio("1", limits=Limits(wall=20, output=1000))

    assert (outcome.status, outcome.message) == ("output", "more than 1000 bytes")
    assert len(saying.heard) == 1


def test_a_program_gets_its_time_and_the_server_some_more():
    assert remote._GRACE == 30
    assert remote._PAUSES == (1.0, 4.0)


def test_unit_tests_are_refused_with_a_remedy(there, fusion):
    for ask in (
        lambda: there.run_check("def f(): pass", "f()", "f"),
        lambda: there.map([StdioJob("1"), CheckJob("", ("",), "f")]),
        lambda: CodeTests(sandbox=there),
    ):
        with pytest.raises(ConfigError, match=r"sandbox=remote runs no unit tests.*code_calls"):
            ask()
    assert not [body for _, body in fusion.asked if "def f(" in body["code"]]


def test_what_is_measured_is_refused(there):
    with pytest.raises(ConfigError, match="sandbox=remote does not measure memory"):
        CodeStdio(sandbox=there, measure=True)


def test_no_workers_are_refused():
    with pytest.raises(ConfigError, match=r"sandbox\.workers=0: must be at least 1"):
        RemoteSandbox(url="http://host", workers=0)
    assert RemoteSandbox(url="http://host", workers=1).workers == 1


ANSWERS = [770_123, 880_456]
# Each finds the nonce, and says what it likes.
FORGERS = {
    "passed": "e.report({'passed': True}); e.report({'tests': [True, True]})",
    "values": "e.report({'ready': 1}); e.report({'value': '1'}); e.report({'value': '1'})",
    "values of its own": "e.report({'ready': 1}); e.report({'value': '[\"any\"]'}); e.report({'value': 'NaN'})",
    "as often as asked": "[e.report({'value': str(n)}) for n in range(3000)]",
    "an answer of the server": 'print(\'{"status": "Success", "run_result": {"return_code": 0}}\')',
}


@pytest.mark.parametrize("name", FORGERS)
def test_a_program_that_finds_the_nonce_gains_nothing(name, there):
    reward = CodeCalls(sandbox=there, where="whole", timeout=60.0)
    source = f"import os, rlcomp.sandbox.execute as e\n{FORGERS[name]}\nimport sys; sys.stdout.flush(); os._exit(0)"

    assert scored(reward, source)["passed"] == 0.0
    assert scored(reward, source)["passed_share"] == 0.0


def scored(reward, response):
    columns = {"inputs": [[1], [2]], "outputs": ANSWERS, "entry_point": "f"}
    return reward.score_row({"prompt": "", "response": response, "answer": "", **columns})


def test_a_reward_by_calls_compares_here_and_sends_no_answer(there, fusion):
    reward = CodeCalls(sandbox=there, where="whole", timeout=60.0)
    right = f"def f(n): return {ANSWERS[0]} + (n - 1) * {ANSWERS[1] - ANSWERS[0]}"

    assert scored(reward, right) == {"passed": 1.0, "passed_share": 1.0, "compiles": 1.0}
    fusion.asked.clear()
    assert scored(reward, "def f(n): return n + 770_122")["passed_share"] == 0.5
    assert scored(reward, "def f(n) return 1")["compiles"] == 0.0
    assert not [body for _, body in fusion.asked if "880456" in json.dumps(body)]


def test_a_reward_by_output_compares_here_and_tells_the_tier(there, fusion):
    reward = CodeStdio(sandbox=there, where="whole", timeout=60.0)
    pairs = {"input_output": [{"input": "21", "output": "880456"}]}
    rows = [
        {"prompt": "", "response": f"print({n} + int(input()))", "answer": "", **pairs}
        for n in (880_435, 0)
    ]

    with recording() as ledger:
        scores = reward.score_rows(rows, [0, 1])

    assert [score["passed"] for score in scores] == [1.0, 0.0]
    assert not [body for _, body in fusion.asked if "880456" in json.dumps(body)]
    metrics = {name: value for name, value in ledger.means().items() if name.startswith("sandbox/")}
    assert metrics == {"sandbox/strict": 0.0, "sandbox/remote": 1.0, "sandbox/jobs": 2.0}
