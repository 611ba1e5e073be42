"""A candidate and its tests: what passes between the two, and what is made of it."""

import os
import sys
import threading

import pytest

from rlcomp.sandbox.candidate_tests import _exception, _update, receive, send
from rlcomp.sandbox.execute import describe_error, execute, find_function, new_module
from rlcomp.sandbox.job import MEBIBYTE, Limits
from rlcomp.sandbox.plain_data import MAX_BYTES, NotPlainData

MEBIBYTES_100 = 100 * MEBIBYTE


@pytest.mark.parametrize(
    ("candidate", "tests", "passed", "message"),
    [
        ("def f(a): return a", "assert f(3) == 3 and candidate('x') == 'x'", (True,), ""),
        ("def f(a): return a", ["assert f(1) == 1", "assert f(1) == 2", "assert f(2) == 2"],
         (True, False, True), "AssertionError (line 1 of the test)"),
        ("def f(*a, **k): return a, k", "assert f(1, b=[2]) == ((1,), {'b': [2]})", (True,), ""),
        ("def f(a): a.append(4); a[0][1] = {5}; a[1].clear()",
         "x, y = [0, 1], {2: 3}\nz = [x, y]\nassert f(z) is None\nassert z == [[0, {5}], {}, 4]\n"
         "assert z[0] is x and z[1] is y", (True,), ""),
        ("def f(a, b): b['k'].add(1); del b['x']; a.sort()",
         "a, b = [3, 1, 2], {'k': {0}, 'x': 1}\nk = b['k']\nf(a, b=b)\nassert a == [1, 2, 3] and b == {'k': {0, 1}}\n"
         "assert b['k'] is k", (True,), ""),
        ("def f(a): del a[1:]", "a = [1, 2, 3]\nf(a)\nassert a == [1]", (True,), ""),
        ("def f(a): a[0][0].append(1)", "a = [([],)]\nf(a)\nassert a == [([1],)]", (True,), ""),
        ("def f(a): return a", "a = [1]\nassert f(a) == a and f(a) is not a", (True,), ""),
        ("def f(a): return {}[a]", "try: f('key')\nexcept KeyError as e: assert 'key' in str(e)", (True,), ""),
        ("class E(Exception): pass\ndef f(): raise E('own')",
         "try: f()\nexcept RuntimeError as e: assert str(e) == 'E: own'", (True,), ""),
        ("def f(): b'\\xff'.decode()", "try: f()\nexcept RuntimeError as e: assert 'Unicode' in str(e)", (True,), ""),
        ("def f(): raise ValueError('x')", "f()", (False,), "ValueError: x (line 1 of the test)"),
        ("def f(a): return 1", "def check(candidate):\n    assert candidate(0) == 1\n    assert candidate(1) == 0",
         (True, False), "AssertionError (line 3 of the test)"),
        ("def f(a): return 2", "def f(a): pass\ndef check(candidate): assert candidate(0) == f(0) == 2",
         (True, True), ""),
        ("import collections as c\ndef f(): return c.Counter('aab'), c.OrderedDict(a=1), c.namedtuple('N', 'a')(1)",
         "assert f() == ({'a': 2, 'b': 1}, {'a': 1}, (1,))", (True,), ""),
        ("def f(): return float('inf'), -0.0, 2**5000, 1j, b'\\0', '\\ud800', frozenset({None})",
         "assert repr(f()) == repr((float('inf'), -0.0, 2**5000, 1j, b'\\0', '\\ud800', frozenset({None})))", (True,), ""),
        ("def f(): return iter([])", ["f()", "pass"], (), "list_iterator is not plain data"),
        ("def f(a): return a", "f(lambda: 0)", (), "function is not plain data"),
        ("def g(): pass", "f()", (), "NameError: it defines no function 'f'"),
        ("import os\ndef f(): os._exit(0)", ["assert 1", "f()", "assert 1"], (True,), "the candidate ended before its tests"),
        ("def f(): return 1", "import sys; sys.exit(0)", (), "it ended before all tests"),
        ("def f(): return 1", "def check(c: 0", (False,), "SyntaxError: '(' was never closed (<program>, line 1)"),
    ],
)  # fmt: skip
def test_tests_judge_a_candidate(candidate, tests, passed, message, sandbox):
    outcome = sandbox.run_check(candidate, tests, "f")

    assert (outcome.tests, outcome.message) == (passed, message)
    assert (outcome.status == "passed") == (message == "")


@pytest.mark.parametrize(
    ("candidate", "status", "message"),
    [
        ("def f():\n while True: pass", "timeout", "not done after 0.5 s"),
        ("def f(): return bytes(10**10)", "memory", "MemoryError (line 1 of the test)"),
        ("x = bytes(10**10)", "memory", f"more than {512 * MEBIBYTE} bytes"),
        ("import os\ndef f(): os.kill(os.getpid(), 6)", "died", "killed by SIGABRT"),
        ("1 / 0", "failed", "ZeroDivisionError: division by zero"),
        (
            "import os\nwhile True: os.write(2, b'x' * 1000)",
            "output",
            f"more than {MEBIBYTE} bytes",
        ),
    ],
)
def test_the_cause_of_a_candidates_end_is_reported(candidate, status, message, sandbox):
    outcome = sandbox.run_check(candidate, "f()", "f", Limits(wall=0.5))

    assert (outcome.status, outcome.message) == (status, message)


def test_a_check_counts_both_programs(sandbox):
    busy = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"

    outcome = sandbox.run_check(
        busy + "def f(): return 1", busy + "x = b'x' * (100 << 20)\nassert f() == 1", "f"
    )

    assert outcome.status == "passed"
    assert outcome.cpu > 0.35
    assert outcome.peak_memory > MEBIBYTES_100


@pytest.mark.parametrize("length", [0, 1, 70000, 4 * MAX_BYTES])
def test_a_message_arrives_unchanged(length):
    reader, writer = os.pipe()
    sender = threading.Thread(target=send, args=(writer, "x" * length))
    sender.start()

    assert receive(reader) == b"x" * length

    sender.join()
    os.close(writer)
    assert receive(reader) is None
    os.close(reader)


@pytest.mark.parametrize("data", [b"", b"\x05", b"\x05\0\0\0four", b"\x01\0\x40\0" + b"x" * 60000])
def test_a_message_that_is_cut_short_or_too_long_is_none(data):
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)

    assert receive(reader) is None

    os.close(reader)


def test_a_message_that_would_not_be_received_is_not_sent():
    with pytest.raises(NotPlainData, match="a message of 4194305 bytes"):
        send(-1, "x" * (4 * MAX_BYTES + 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([1, [2]], [1, [3], 4]),
        ([1, [2], 4], [1]),
        ({1: [2], 3: 4}, {5: 6, 1: [2, 2]}),
        ({1, 2}, {3}),
        ([{1: {2}}], [{1: {3}}]),
        ([([],)], [([1],)]),
        ([(1,)], [(1, 2)]),
        ([(1, 2)], [(1,)]),
        ([1], []),
    ],
)
def test_a_container_gets_the_contents_of_another(old, new):
    inner = [each for each in old if isinstance(each, list)] if isinstance(old, list) else []

    assert _update(old, new) is old

    assert old == new
    kept = [each for each in old if isinstance(each, list)] if isinstance(old, list) else []
    assert all(a is b for a, b in zip(inner, kept, strict=False))


@pytest.mark.parametrize(
    ("old", "new"), [(1, 2), ([1], (1,)), ("a", "b"), (frozenset({1}), frozenset({2})), (None, [1])]
)
def test_a_value_of_another_type_is_replaced(old, new):
    assert _update(old, new) is new


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("ValueError", ValueError, "m"),
        ("AssertionError", AssertionError, "m"),
        ("UnicodeDecodeError", RuntimeError, "UnicodeDecodeError: m"),
        ("SystemExit", RuntimeError, "SystemExit: m"),
        ("BaseException", RuntimeError, "BaseException: m"),
        ("print", RuntimeError, "print: m"),
        ("int", RuntimeError, "int: m"),
        ("Own", RuntimeError, "Own: m"),
    ],
)
def test_an_exception_of_a_candidate_is_a_built_in_one(name, kind, text):
    error = _exception(name, "m")

    assert type(error) is kind
    assert str(error) == text


def test_a_value_that_is_no_function_is_not_called():
    assert find_function({"f": len}, "f") is len
    for namespace in ({}, {"f": 5}):
        with pytest.raises(NameError, match="it defines no function 'f'"):
            find_function(namespace, "f")


def test_an_error_is_described_in_a_line():
    assert describe_error(ValueError("a\n  b")) == "ValueError: a b"
    assert describe_error(ValueError()) == "ValueError"
    assert describe_error(NotPlainData("x is not plain data")) == "x is not plain data"


def test_source_is_run_as_a_module_of_that_name():
    namespace = new_module("rlcomp_sandbox_try")
    execute("name = __name__", namespace)

    assert namespace["name"] == "rlcomp_sandbox_try"
    assert sys.modules.pop("rlcomp_sandbox_try").name == "rlcomp_sandbox_try"
    with pytest.raises(NameError):
        execute("def f(x: nothing): pass", namespace)  # no __future__ import of ours
