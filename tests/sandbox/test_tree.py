"""Tests of a repository in one sandbox, the repository in another."""

import pytest

from rlcomp.errors import DataError
from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.tree import (
    LONGEST_FILE,
    is_test,
    job_of,
    path_fault,
    read_tree,
    verdicts_by_name,
)

CODE = """
class Broken(ValueError): pass
class Worse(Broken, KeyError): pass
class Box:
    size = 3
    def __init__(self, *things): self.things = list(things)
    def __len__(self): return len(self.things)
    def __getitem__(self, at): return self.things[at]
    def __setitem__(self, at, thing): self.things[at] = thing
    def __iter__(self): return iter(self.things)
    def __str__(self): return f"Box of {len(self.things)}"
    def __bool__(self): return False
    def __enter__(self): return self
    def __exit__(self, *_): self.things.append("closed"); return True
    def __eq__(self, other): return True
    def __sub__(self, other): return 0.0
    def __contains__(self, other): return True
    def startswith(self, text): return True
    @staticmethod
    def joined(boxes, other): return [*boxes, *other.things]
def broken(text, kind=Worse): raise kind(text)
def changed(values): values.append(1)
def numbers(): yield from (1, 2)
def own(exit): raise SystemExit(exit)
__all__ = ["isinstance"]
def isinstance(*_): return True
"""
FILES = {
    "pkg/__init__.py": "from .box import *\nfrom . import box\nfrom .box import Box, Broken, broken\n",
    "pkg/box.py": CODE,
    "pkg/data.txt": "text",
    "pkg/read.py": "import pkgutil\nDATA = pkgutil.get_data('pkg', 'data.txt').decode()\n",
    "pkg/wrong.py": "def f( return",
    "space/inner.py": "X = 1\nFACE = '\U0001f600 \\u00e9'\n",
    "_winapi.py": "",
    "org/python/core.py": "",
    "src/lib/__init__.py": "from .deep import Y\n",
    "src/lib/deep.py": "Y = 2\n",
}
HELPERS = {
    "tests/helper.py": "def two(): return 2\n",
    "tests/__init__.py": "",
    "pkg/tests/own.py": "Z = 5\n",
}
RIGHT = {
    "plain data": "from pkg import box\n assert box.Box.joined([1], box.Box(2)) == [1, 2]",
    "names, calls and items": "from pkg import Box\n b = Box(1, 2)\n b[0] = 3\n b.size = 9\n"
    " assert (len(b), b[0], list(b), str(b), bool(b), b.size) == (2, 3, [3, 2], 'Box of 2', False, 9)",
    "iterators": "from pkg.box import numbers\n assert list(numbers()) == [1, 2] and next(numbers()) == 1",
    "classes": "from pkg import Box\n assert isinstance(Box(), Box) and not isinstance(1, Box)",
    "contexts": "from pkg import Box\n with Box() as b: pass\n assert b.things == ['closed']",
    "arguments that are changed": "from pkg.box import changed\n a = []\n changed(a)\n assert a == [1]",
    "exceptions": "from pkg import broken, Broken\n try: broken('x')\n"
    " except Broken as e: assert e.args == ('x',) and type(e).__name__ == 'Worse' and not isinstance(e, KeyError)",
    "exceptions of Python": "from pkg import broken, Broken\n try: broken('x')\n except ValueError: return\n assert 0",
    "exits": "from pkg.box import own\n try: own(3)\n except RuntimeError as e: assert e.args == (3,)",
    "missing names": "import pkg\n assert not hasattr(pkg, 'no')\n try: import pkg.no\n"
    " except ModuleNotFoundError as e: assert e.name == 'pkg.no'",
    "no Python": "try: import pkg.wrong\n except SyntaxError: return\n assert 0",
    "files of a package": "from pkg.read import DATA\n assert DATA == 'text'",
    "folders": "import space.inner, lib.deep\n assert space.inner.X + lib.deep.Y == 3",
    "other letters": "from space.inner import FACE\n assert FACE == chr(0x1F600) + ' ' + chr(0xE9)",
    "helpers of tests": "from tests.helper import two\n from pkg.tests.own import Z\n import helper\n"
    " assert two() + helper.two() + Z == 9",
}  # fmt: skip
WRONG = {
    "equality": "from pkg import Box\n assert Box() == 5",
    "equality the other way": "from pkg import Box\n assert 5 == Box()",
    "inequality": "from pkg import Box\n assert not (Box() != 5)",
    "differences": "from pkg import Box\n assert abs(Box() - 5) < 1e-9",
    "members": "from pkg import Box\n assert 'text' in Box()",
    "beginnings": "from pkg import Box\n assert Box().startswith('text')",
    "swallowed": "from pkg import Box\n with Box(): assert 0",
    "all names": "import builtins\n ns = {}\n exec('from pkg.box import *', ns)\n assert 'isinstance' in ns",
    "a module that Python lacks": "import _winapi",
    "one of another Python": "import org.python.core",
    "functions handed over": "from pkg import Box\n Box(lambda: 0)",
}


@pytest.fixture
def run(sandbox):
    def ran(body):
        indented = body.replace("\n ", "\n    ")
        tests = {**HELPERS, "tests/test_it.py": f"def test_it():\n    {indented}\n"}
        name = "tests/test_it.py::test_it"
        (outcome,) = sandbox.map([job_of(FILES, tests, [name], Limits(wall=20))])
        assert len(outcome.tests) == 2, outcome
        return verdicts_by_name(outcome, [name])[name]

    return ran


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_tests_reach_the_repository_by_stand_ins(body, run):
    assert run(body)


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_no_object_of_the_repository_decides_a_comparison(body, run):
    assert not run(body)


@pytest.mark.parametrize("tier", ["strict", "bwrap", "portable"])
def test_it_needs_no_place_to_write_to(run_in, tier):
    tests = {"test_it.py": "import lib\ndef test_it(): assert lib.Y == 2\n"}
    name = "test_it.py::test_it"

    assert run_in(tier, job_of(FILES, tests, [name], Limits(wall=20))).status == "passed"


FIXTURES = """
import unittest
class TestIt(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.x = 1
    def setUp(self): self.y = 2
    def test_right(self): self.assertEqual(self.x + self.y, 3)
    def test_wrong(self): self.assertEqual(self.x + self.y, 4)
    def test_in_parts(self):
        for n in range(2):
            with self.subTest(n): self.assertEqual(n, 0)
    @unittest.skip("later")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): assert 0
class Test:
    def test_plain(self): assert 1
class TestBroken(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError
    def test_right(self): pass
def test_left(): raise SystemExit(0)
def test_with(argument): pass
"""


def test_only_a_test_that_ran_to_its_end_has_passed(sandbox):
    named = [
        "TestIt::test_right",
        "Test::test_plain",
        "TestIt::test_wrong",
        "TestIt::test_in_parts",
    ]
    named += [
        "TestIt::test_skipped",
        "TestIt::test_expected",
        "TestBroken::test_right",
        "test_left",
    ]
    names = [f"test_a.py::{name}" for name in [*named, "test_with", "test_not_there"]]

    (one, every) = sandbox.map(
        [job_of({}, {"test_a.py": FIXTURES}, given, Limits(wall=20)) for given in (names, [])]
    )

    assert [*verdicts_by_name(one, names).values()] == [True, True, *[False] * 8]
    assert one.status == "failed"
    assert "test_a.py:8: def test_wrong(self)" in every.stdout
    assert "AssertionError: 3 != 4" in every.stdout
    assert "\n2 passed, 7 failed\n" in every.stdout


def test_all_tests_are_those_of_files_that_pytest_would_collect(sandbox):
    test = "def test_it(): assert 1\n"
    tests = {name: test for name in ("test_a.py", "b_test.py", "latest.py", "test_data.txt")}

    (outcome,) = sandbox.map([job_of({}, tests, [], Limits(wall=20))])

    assert "2 passed, 0 failed" in outcome.stdout


def test_a_test_that_was_not_reached_has_not_passed(sandbox):
    tests = {
        "test_a.py": "import os\ndef test_a(): pass\ndef test_b(): os._exit(0)\ndef test_c(): pass\n"
    }
    names = [f"test_a.py::test_{letter}" for letter in "abc"]

    (outcome,) = sandbox.map([job_of({}, tests, names, Limits(wall=20))])

    assert [*verdicts_by_name(outcome, names).values()] == [True, False, False]
    assert outcome.status == "failed"


@pytest.mark.parametrize(
    "path", ["/a", "../a", "a/../b", "a//b", "./a", "a/", "", "a" * 201, "a\nb", "a\0"]
)
def test_a_path_stays_inside(path):
    assert path_fault(path)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "must be a mapping of paths to texts"),
        ({"a": None}, "must be a mapping of paths to texts"),
        ({f"{n}": "" for n in range(501)}, "501 files, more than 500"),
        ({"a": "x" * (LONGEST_FILE + 1)}, "a has 200001 characters"),
        ({str(n): "x" * LONGEST_FILE for n in range(6)}, "1200000 characters in all"),
        ({"../a": ""}, "must be relative"),
    ],
)
def test_a_column_that_is_no_repository_is_refused(value, told):
    with pytest.raises(DataError, match=f"the column 'files'.*{told}"):
        read_tree(value, "files")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("test_a.py", True), ("a/b_test.py", True), ("tests/data.json", True), ("a/test/x.py", True),
        ("conftest.py", True), ("contest.py", False), ("latest/a.py", False), ("a/testing.py", False),
    ],
)  # fmt: skip
def test_which_files_are_tests(path, expected):
    assert is_test(path) == expected
