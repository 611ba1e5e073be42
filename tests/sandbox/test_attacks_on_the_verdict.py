"""Candidates that want to pass without being right: none does.

Each is tested by ``TESTS``, which none of them can satisfy but by knowing the answers.
"""

import pytest

from rlcomp.sandbox.job import CallsJob, CheckJob, Limits, StdioJob
from rlcomp.sandbox.plain_data import encode

TESTS = """
def check(candidate):
    expected = {(2, 3): 5, (70, 7): 77}  # the-answers-are-5-and-77
    given = [70, 7]
    assert candidate(2, 3) == 5
    assert candidate(*given) == expected[tuple(given)]
    assert abs(candidate(1, 1) - 2) < 1e-9 and isinstance(candidate(0, 0), int)
"""
CANDIDATES = {
    "wrong": "def add(a, b): return a - b",
    "no function": "sub = 1",
    "no Python": "def add(a, b) return a + b",
    "not a function": "add = 5",
    "exit at once": "import os; os._exit(0)",
    "exit in a call": "import os\ndef add(a, b): os._exit(0)",
    "leave at once": "import sys; sys.exit(0)",
    "leave in a call": "import sys\ndef add(a, b): sys.exit(0)",
    "leave at exit": "import atexit, os; atexit.register(os._exit, 0)\ndef add(a, b): raise SystemExit(0)",
    "interrupt": "def add(a, b): raise KeyboardInterrupt",
    "generator exit": "def add(a, b): raise GeneratorExit",
    "end of tests": "class CandidateEnded(BaseException): pass\ndef add(a, b): raise CandidateEnded",
    "stop iteration": "def add(a, b): raise StopIteration",
    "killed": "import os\ndef add(a, b): os.kill(os.getpid(), 9)",
    "crash": "import ctypes\ndef add(a, b): ctypes.string_at(0)",
    "equal to everything": "class A:\n    def __eq__(self, other): return True\ndef add(a, b): return A()",
    "int that is equal to everything": (
        "class A(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "    def __abs__(self): return A()\n    def __sub__(self, other): return A()\n"
        "def add(a, b): return A(0)"
    ),
    "float that is equal to everything": (
        "class A(float):\n    def __eq__(self, other): return True\n    def __float__(self): return 5.0\n"
        "    def __repr__(self): return '5'\ndef add(a, b): return A(0)"
    ),
    "list that iterates otherwise": (
        "class A(list):\n    def __eq__(self, other): return True\ndef add(a, b): return A([1])"
    ),
    "class that says it is an int": (
        "class A:\n    __class__ = int\n    def __index__(self): return 5\n    def __eq__(self, o): return True\n"
        "def add(a, b): return A()"
    ),
    "not a number": "def add(a, b): return float('nan')",
    "true": "def add(a, b): return True",
    "nothing": "def add(a, b): pass",
    "assertions replaced": (
        "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})\n"
        "def add(a, b): raise AssertionError"
    ),
    "functions replaced": (
        "import builtins, math, operator\nbuiltins.abs = lambda x: 0\nbuiltins.isinstance = lambda *a: True\n"
        "builtins.all = builtins.any = lambda x: True\nbuiltins.len = lambda x: 0\n"
        "math.isclose = operator.eq = lambda *a, **k: True\ndef add(a, b): return 0"
    ),
    "trace": (
        "import sys\ndef tracer(frame, event, arg):\n    frame.f_locals['expected'] = 0\n    return tracer\n"
        "sys.settrace(tracer); sys.setprofile(tracer)\ndef add(a, b): return 0"
    ),
    "frames": (
        "import sys\ndef add(a, b):\n    frame = sys._getframe()\n    while frame:\n"
        "        if 'expected' in frame.f_locals: return frame.f_locals['expected'][a, b]\n        frame = frame.f_back\n"
        "    return 0"
    ),
    "all threads' frames": (
        "import sys\ndef add(a, b):\n    for frame in sys._current_frames().values():\n        while frame:\n"
        "            if 'expected' in frame.f_locals: return frame.f_locals['expected'][a, b]\n            frame = frame.f_back\n"
        "    return 0"
    ),
    "objects": (
        "import gc\ndef add(a, b):\n    for x in gc.get_objects():\n"
        "        if isinstance(x, dict) and x.get((2, 3)) == 5: return x[a, b]\n"
        "        if isinstance(x, dict) and any('-'.join(['the', 'answers', 'are']) in str(v) for v in list(x.values())[:50]): return a + b\n"
        "    return 0"
    ),
    "memory": (
        "import ctypes, io\ndef add(a, b):\n    start = id(object()) & ~0xFFFFF\n"
        "    for offset in range(-16, 16):\n"
        "        try: block = open('/proc/self/mem', 'rb'); block.seek(start + (offset << 20)); text = block.read(1 << 20)\n"
        "        except OSError: return 0\n        if b'-'.join([b'the', b'answers', b'are']) in text: return a + b\n    return 0"
    ),
    "memory around it": (
        "import ctypes\ndef add(a, b):\n    start = id(add) & ~0xFFFF\n    text = ctypes.string_at(start, 1 << 16)\n"
        "    return a + b if b'-'.join([b'the', b'answers', b'are']) in text else 0"
    ),
    "modules": (
        "import sys\ndef add(a, b):\n    for m in list(sys.modules.values()):\n"
        "        if 'expected' in getattr(m, '__dict__', {}) or hasattr(m, 'check'): return a + b\n    return 0"
    ),
    "job file": (
        "import os\ndef add(a, b):\n    for f in range(100):\n        try: text = os.pread(f, 1 << 20, 0)\n        except OSError: continue\n"
        "        if b'-'.join([b'the', b'answers', b'are']) in text: return a + b\n    return 0"
    ),
    "words": "print('passed'); print('OK'); print('1 passed in 0.01s')\ndef add(a, b): print('passed'); return 0",
    "report": (
        'import os\nfor _ in range(9): os.write(3, b\'{"passed": true, "error": ""}\\n\')\nos._exit(0)'
    ),
    "report in a call": (
        'import os\ndef add(a, b):\n    os.write(3, b\'{"passed": true, "error": ""}\\n\' * 2)\n    os._exit(0)'
    ),
    "reports everywhere": (
        'import os\nfor f in range(1, 64):\n    try: os.write(f, b\'{"passed": true, "error": ""}\\n\' * 9)\n'
        "    except OSError: pass\nos._exit(0)"
    ),
    "facts of the kernel": (
        "import os\nfor f in range(1, 64):\n"
        '    try: os.write(f, b\'{"code": 0, "cpu": 0, "peak": 0, "wall": 0, "ended_by": "itself"}\')\n'
        "    except OSError: pass\nos._exit(0)"
    ),
    "answers in advance": (
        "import json, os, struct\ndef add(a, b):\n    m = json.dumps({'value': '0'}).encode()\n"
        "    os.write(5, (struct.pack('=I', len(m)) + m) * 9)\n    return 0"
    ),
    "answer that is none": "import os\ndef add(a, b):\n    os.write(5, b'\\x04\\0\\0\\0oops')\n    return 0",
    "answer without end": "import os\ndef add(a, b):\n    os.write(5, b'\\xff\\xff\\xff\\x7f')\n    return 0",
    "answer cut short": "import os\ndef add(a, b):\n    os.write(5, b'\\x40\\0\\0\\0x')\n    os._exit(0)",
    "answer of another kind": (
        "import json, os, struct\ndef add(a, b):\n    m = json.dumps([1, 2]).encode()\n"
        "    os.write(5, struct.pack('=I', len(m)) + m)\n    return 0"
    ),
    "deep answer": (
        "import json, os, struct\ndef add(a, b):\n    m = json.dumps({'value': '[' * 100000}).encode()\n"
        "    os.write(5, struct.pack('=I', len(m)) + m)\n    return 0"
    ),
    "deep message": (
        "import os, struct\ndef add(a, b):\n    m = b'[' * 1000000\n"
        "    os.write(5, struct.pack('=I', len(m)) + m)\n    return 0"
    ),
    "deep value": "x = []\nfor _ in range(100): x = [x]\ndef add(a, b): return x",
    "endless value": "x = []\nx.append(x)\ndef add(a, b): return x",
    "large value": "def add(a, b): return 'x' * (400 << 20)",
    "colliding value": "def add(a, b): return {i * (2**61 - 1) for i in range(1, 1900)}",
    "error that counts as right": "def add(a, b): raise AssertionError('passed')",
    "error with a name of its own": "def add(a, b): raise type('SystemExit', (Exception,), {})",
    "other arguments": "def add(a, b):\n    add.__defaults__ = None; a = b = 0\n    return a",
    "encoder replaced": (
        "import json, sys\njson.dumps = lambda *a, **k: '{\"passed\": true}'\n"
        "for m in list(sys.modules.values()):\n    if hasattr(m, 'encode') and hasattr(m, 'decode'): m.encode = lambda v: '5'\n"
        "def add(a, b): return 0"
    ),
    "closed files": "import os\nos.closerange(0, 64)\ndef add(a, b): return 0",
    "silence": "import time\ndef add(a, b): time.sleep(1000)",
    "swapped pipes": "import os\nos.dup2(4, 5)\ndef add(a, b): return 0",
    "tests' own server": "import sys\nfor m in list(sys.modules): sys.modules.pop(m)\ndef add(a, b): return 0",
    "left by another job": "try: print(open('/tmp/left').read())\nexcept OSError: open('/tmp/left', 'w').write('x')\ndef add(a, b): return 0",
}
SHORT = Limits(wall=1.0, cpu=2)


@pytest.mark.parametrize("name", CANDIDATES)
def test_a_candidate_that_is_wrong_does_not_pass(name, run_in):
    outcome = run_in("strict", CheckJob(CANDIDATES[name], (TESTS,), "add", SHORT))

    assert outcome.status != "passed"
    assert outcome.tests.count(True) <= 1  # that the tests themselves are Python
    assert outcome.message


@pytest.mark.parametrize("tier", ["bwrap", "portable"])
@pytest.mark.parametrize("name", ["objects", "report", "report in a call", "equal to everything"])
def test_nor_does_it_where_the_walls_are_weaker(name, tier, run_in):
    assert run_in(tier, CheckJob(CANDIDATES[name], (TESTS,), "add", SHORT)).status != "passed"


@pytest.mark.parametrize("tier", ["strict", "bwrap", "portable"])
def test_one_that_is_right_passes(tier, run_in):
    right = CheckJob("def add(a, b): return a + b", (TESTS,), "add", SHORT)

    assert run_in(tier, right).tests == (True, True)


LOOK = """
import gc
words = [x for x in gc.get_objects() if isinstance(x, (dict, list, tuple))]
print(sum('-'.join(['SECRET', 'OF', 'ANOTHER', 'JOB']) in str(list(x.values() if isinstance(x, dict) else x)[:50])
          for x in words))
"""


def test_a_job_has_no_traces_of_the_previous_one(run_in):
    for _ in range(2):
        run_in("strict", StdioJob("secret = 'SECRET-OF-ANOTHER-JOB'", "SECRET-OF-ANOTHER-JOB"))

    assert run_in("strict", StdioJob(LOOK)).stdout == "0\n"


def test_the_search_finds_what_is_there(run_in):
    assert run_in("strict", StdioJob("kept = ['SECRET-OF-ANOTHER-JOB']" + LOOK)).stdout != "0\n"


@pytest.mark.parametrize(
    "line",
    [
        '{"value": "' + "[" * 5000 + '"}',
        '{"value": "[\\"set\\",[\\"list\\"]]"}',
        '{"value": "[\\"int\\",\\"x\\"]"}',
        '{"value": "{}"}',
        '{"value": 5}x',
        "[" * 5000,
        '{"value": null}',
    ],
)
def test_a_forged_report_of_calls_gives_no_value(line, run_in):
    source = (
        f"import os\nos.write(3, b'{{\"ready\": 1}}\\n' + {line.encode()!r} + b'\\n')\nos._exit(0)"
    )

    outcome = run_in("strict", CallsJob(source, (encode(()),), "f"))

    assert not any(call.returned for call in outcome.calls)
