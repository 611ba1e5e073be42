"""What the sandbox says of honest programs: how they end, what they may use, who judges them."""

import time

import pytest

from rlcomp.errors import ConfigError
from rlcomp.sandbox.job import MEBIBYTE, Limits
from rlcomp.sandbox.outcome import CallResult
from rlcomp.sandbox.plain_data import NotPlainData
from rlcomp.sandbox.sandbox import Sandbox

MEBIBYTES_100 = 100 * MEBIBYTE


@pytest.mark.parametrize(
    ("source", "stdin", "stdout"),
    [
        ("print(2 * int(input()))", "21\n", "42\n"),
        ("import sys; print(len(sys.stdin.read()))", "é" * 10**6, "1000000\n"),
        ("import sys; sys.stdout.buffer.write(b'a\\xffb')", "", "a�b"),
        ("try: input()\nexcept EOFError: print('end', end='')", "", "end"),
        ("print(__name__)\nclass A: pass\nimport sys; print(sys.modules['__main__'].A is A)", "", "__main__\nTrue\n"),
        ("import atexit; atexit.register(print, 'bye')", "", "bye\n"),
        ("import threading as t\ndef f():\n import time; time.sleep(.05); print('thread')\nt.Thread(target=f).start()", "", "thread\n"),
        ("import tempfile\nwith tempfile.TemporaryFile() as f: f.write(bytes(1000)); print(f.tell())", "", "1000\n"),
        ("import sys; print('half'); sys.exit()", "", "half\n"),
        ("import sys, threading as t\nsys.setrecursionlimit(30000); t.stack_size(1 << 26)\n"
         "def f(n): return n and 1 + f(n - 1)\nx = t.Thread(target=lambda: print(f(20000))); x.start()", "", "20000\n"),
        ("import os; print(os.getpid() == 1, os.getuid(), os.getcwd(), os.getppid())", "", "False 1000 /tmp 1\n"),
        ("import os; print(sorted(os.listdir('/')).count('proc'), sorted(os.listdir('/dev')))", "", "0 ['null']\n"),
        ("print(open('/dev/null').read() == '', open('/dev/null', 'w').write('x'))", "", "True 1\n"),
        ("import sys; print(sys.argv, [p for p in sys.path if 'lib/python' not in p])", "", "['program'] []\n"),
        ("import resource as r; print([r.getrlimit(k)[1] for k in (r.RLIMIT_NOFILE, r.RLIMIT_CORE)])", "", "[64, 1]\n"),
    ],
)  # fmt: skip
def test_a_program_reads_and_writes(source, stdin, stdout, sandbox):
    outcome = sandbox.run_stdio(source, stdin)

    assert (outcome.status, outcome.message) == ("passed", "")
    assert outcome.stdout == stdout


@pytest.mark.parametrize(
    ("source", "status", "message"),
    [
        ("x = 1 +", "failed", "SyntaxError: invalid syntax (<program>, line 1)"),
        ("\0", "failed", None),
        ("1 / 0", "failed", "ZeroDivisionError: division by zero"),
        ("raise KeyboardInterrupt", "failed", "KeyboardInterrupt"),
        ("import sys; sys.exit(3)", "failed", "exit code 3"),
        ("import sys; sys.exit('no')", "failed", "exit code 1"),
        ("def f(x: undefined): pass", "failed", "NameError: name 'undefined' is not defined"),
        ("import numpy", "failed", "ModuleNotFoundError: No module named 'numpy'"),
        ("raise ValueError('a' * 9999)", "failed", "ValueError: " + "a" * 488),
        ("x = bytes(10**10)", "memory", f"more than {512 * MEBIBYTE} bytes"),
        ("print('x' * 2**20)", "output", f"more than {MEBIBYTE} bytes"),
        ("import os; os.kill(os.getpid(), 11)", "died", "killed by SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", "died", "killed by SIGKILL"),
        ("import os; os.kill(os.getpid(), 40)", "died", "killed by signal 40"),
    ],
)
def test_the_outcome_names_the_cause_of_a_failure(source, status, message, sandbox):
    outcome = sandbox.run_stdio(source)

    assert outcome.status == status
    assert message in (None, outcome.message)


def test_the_wall_clock_ends_a_program(sandbox):
    started = time.monotonic()

    outcome = sandbox.run_stdio(
        "import time; print('so far', flush=True); time.sleep(60)", limits=Limits(wall=0.4)
    )

    assert (outcome.status, outcome.message) == ("timeout", "not done after 0.4 s")
    assert outcome.stdout == "so far\n"
    assert 0.4 <= outcome.wall <= time.monotonic() - started < 30


def test_seconds_of_the_cpu_end_a_program(sandbox):
    outcome = sandbox.run_stdio("while True: pass", limits=Limits(wall=60, cpu=1))

    assert (outcome.status, outcome.message) == ("timeout", "1 s of the CPU were not enough")
    assert 0.5 <= outcome.cpu < 2


def test_the_usage_is_measured(sandbox):
    source = "import time\nx = b'x' * {}\nwhile time.process_time() < 0.3: pass\ntime.sleep(0.2)"

    outcome = sandbox.run_stdio(source.format(MEBIBYTES_100))

    assert (
        0.25 < outcome.cpu < 0.6
    )  # the fork's clock starts at 0; the program's own work around it
    assert outcome.wall > outcome.cpu + 0.15
    assert MEBIBYTES_100 < outcome.peak_memory < MEBIBYTES_100 + 60 * MEBIBYTE


@pytest.mark.parametrize(
    ("source", "limits", "status"),
    [
        ("x = bytes(100 << 20)", Limits(memory=100 * MEBIBYTE), "memory"),
        ("x = bytes(100 << 20)", Limits(memory=250 * MEBIBYTE), "passed"),
        ("print('x' * 3000)", Limits(output=3000), "output"),
        ("print('x' * 2998)", Limits(output=3000), "passed"),
        ("import sys; sys.stderr.write('x' * 4000)", Limits(output=3000), "output"),
        ("open('/tmp/a', 'wb').write(bytes(600000))", Limits(disk=500_000), "failed"),
        ("open('/tmp/a', 'wb').write(bytes(400000))", Limits(disk=500_000), "passed"),
        ("open('/tmp/a', 'wb').write(bytes(2 << 20))", Limits(), "failed"),  # of one file: output
        ("import os; print(os.fork())", Limits(), "failed"),
        ("import os\nif os.fork() == 0: os._exit(0)\nos.wait()", Limits(fork=True), "passed"),
        (
            "import subprocess as s; assert s.run(['true']).returncode == 0",
            Limits(fork=True),
            "passed",
        ),
        ("import subprocess as s; s.run(['true'])", Limits(), "failed"),
    ],
)
def test_each_limit_is_that_of_the_job(source, limits, status, sandbox):
    assert sandbox.run_stdio(source, limits=limits).status == status


@pytest.mark.parametrize(("most", "status"), [(6, "passed"), (5, "failed")])
def test_a_program_has_as_many_tasks_as_it_may(most, status, run_in):
    # Its own, and five threads.
    source = (
        "import threading, time\nx = [threading.Thread(target=time.sleep, args=(.3,)) for _ in range(5)]\n"
        "[t.start() for t in x]"
    )

    # Its own worker: what is left of an earlier job for an instant counts as well.
    with Sandbox(workers=1) as sandbox:
        assert sandbox.run_stdio(source, limits=Limits(tasks=most)).status == status


@pytest.mark.parametrize("name", ["wall", "cpu", "memory", "output", "disk", "tasks"])
def test_a_limit_that_nothing_can_run_in_is_refused(name):
    for value in (0, -1, float("inf"), float("nan")):
        with pytest.raises(
            ConfigError, match=rf"limits.{name}={value}: must be a finite number above 0"
        ):
            Limits(**{name: value})


def test_less_memory_than_python_needs_is_refused():
    with pytest.raises(ConfigError, match=r"limits\.memory=1000: must be at least 67108864"):
        Limits(memory=1000)


def test_calls_give_a_value_or_an_error_each(sandbox):
    source = "def half(a, b=1): return a / 2, {b}"

    outcome = sandbox.run_calls(source, [(1,), ("a",), (3, 4)], "half")

    assert outcome.status == "passed"
    assert outcome.calls == (
        CallResult(True, (0.5, {1})),
        CallResult(False, error="TypeError: unsupported operand type(s) for /: 'str' and 'int'"),
        CallResult(True, (1.5, {4})),
    )


def test_an_expression_is_called_by_its_names(sandbox):
    expression = " x * y + sum(x for _ in range(y)) "

    outcome = sandbox.run_calls(expression, [(1, 2), (3, 4)], names=("x", "y"))

    assert [call.value for call in outcome.calls] == [4, 24]  # 1*2 + 1+1, 3*4 + 4*3


@pytest.mark.parametrize(
    ("source", "status", "message", "values"),
    [
        (
            "def f(a): return a\nimport sys; sys.exit(0)",
            "failed",
            "it ended after 0 of 3 calls",
            [],
        ),
        (
            "import os\ndef f(a): return a if a < 2 else os._exit(0)",
            "failed",
            "it ended after 2 of 3 calls",
            [0, 1],
        ),
        ("def f(a):\n while a > 1: pass\n return a", "timeout", "not done after 0.5 s", [0, 1]),
        (
            "def f(a): return a if a else iter([])",
            "unsupported",
            "list_iterator is not plain data",
            [None, 1, 2],
        ),
        ("def g(a): return a", "failed", "NameError: it defines no function 'f'", []),
        ("x = 1; y = 2", "failed", "NameError: it defines no function 'f'", []),
    ],
)
def test_calls_that_are_not_all_answered_say_why(source, status, message, values, sandbox):
    outcome = sandbox.run_calls(source, [(0,), (1,), (2,)], "f", limits=Limits(wall=0.5))

    assert (outcome.status, outcome.message) == (status, message)
    assert [call.value for call in outcome.calls] == values


def test_statements_are_no_expression(sandbox):
    outcome = sandbox.run_calls("x; import os", [(1,)], names=("x",))

    assert (outcome.status, outcome.calls) == ("failed", ())
    assert outcome.message.startswith("SyntaxError")


def test_an_input_that_is_no_plain_data_is_refused_at_once(sandbox):
    with pytest.raises(NotPlainData, match="object is not plain data"):
        sandbox.run_calls("def f(a): return a", [(object(),)], "f")
