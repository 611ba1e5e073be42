"""Changes of a repository: which make a task, and why others make none."""

import re

import pytest

from rlcomp.data.software import Change, tasks_of
from rlcomp.sandbox.job import Limits

CODE = "def double(n):\n    return n\n"
TESTS = "from code_ import double\n\n\ndef test_zero():\n    assert double(0) == 0\n"
BEFORE = {"code_.py": CODE, "test_code.py": TESTS}
SOLVED = "--- a/code_.py\n+++ b/code_.py\n@@ -2 +2 @@\n-    return n\n+    return 2 * n\n"
HUNK = "--- a/test_code.py\n+++ b/test_code.py\n@@ -5,0 +6,{} @@\n"


def added(*lines):
    return HUNK.format(len(lines)) + "".join(f"+{line}\n" for line in lines)


ONE = ("def test_one():", "    assert double(1) == 2")
# Does not end before the change.
LOOP = ("def test_loop():", "    import time", "    while double(1) == 1: time.sleep(0.1)")
KEPT = "--- a/code_.py\n+++ b/code_.py\n@@ -1,2 +1,5 @@\n+seen = []\n def double(n):\n"
KEPT += "-    return n\n+    seen.append(n)\n+    assert len(seen) < 3\n+    return 2 * n\n"


@pytest.fixture(scope="module")
def made(sandbox):
    def run(diff, issue="Double it.", before=BEFORE):
        change = Change(name="it", issue=issue, before=before, diff=diff)
        rows, dropped = tasks_of([change], sandbox, Limits(wall=2))
        assert len(rows) + len(dropped) == 1
        return rows[0] if rows else dropped["it"]

    return run


def test_a_row_has_the_issue_the_repository_and_its_tests_after_the_change(made):
    row = made(SOLVED + added(*ONE, "def test_wrong():", "    assert 0"))

    assert row == {
        "question": "Double it.",
        "answer": SOLVED.replace("-2 +2", "-2,1 +2,1"),  # as unidiff words it
        "files": BEFORE,
        "hidden_tests": {
            "test_code.py": TESTS + "\n".join([*ONE, "def test_wrong():", "    assert 0", ""])
        },
        "fail_to_pass": ["test_code.py::test_one"],
        "pass_to_pass": ["test_code.py::test_zero"],
    }


def test_a_test_that_hangs_before_the_change_spoils_no_other(made):
    row = made(SOLVED + added(*LOOP))

    assert row["fail_to_pass"] == ["test_code.py::test_loop"]
    assert row["pass_to_pass"] == ["test_code.py::test_zero"]


@pytest.mark.parametrize(
    ("diff", "told"),
    [
        (SOLVED, r"no test fails before the change and passes after it \(of 1 tests 1 pass"),
        (added(*ONE), r"no test fails before .* \(of 2 tests 1 pass after"),
        (added("import pytest") + SOLVED, r"no test fails before .* \(of 1 tests 0 pass after"),
        (added("x = ("), "test_code.py is no Python: '\\(' was never closed"),
        ("words", "not a unified diff"),
        ("--- a/test_code.py\n+++ /dev/null\n@@ -1,5 +0,0 @@\n"
         + "".join(f"-{line}\n" for line in TESTS.splitlines()), "it has 0 tests after the change"),
        (KEPT + added(*ONE, "def test_two():", "    assert double(2) == double(1) * 2"),
         "its tests pass alone and not together: "),
    ],
)  # fmt: skip
def test_a_change_that_makes_no_task_is_dropped_with_the_reason(made, diff, told):
    assert re.match(told, made(diff))


def test_a_repository_beyond_its_limits_and_a_change_without_an_issue_are_dropped(made):
    large = {**BEFORE, "data.txt": "x" * 200_001}

    assert made(SOLVED, before=large) == (
        "the repository before the change: data.txt has 200001 characters, more than 200000"
    )
    assert made(SOLVED, issue=" ") == "it has no issue: describe the task in a text"
