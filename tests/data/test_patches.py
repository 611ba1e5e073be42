"""Diffs applied to texts."""

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcomp.data.software import apply_diff, without_tests
from rlcomp.errors import DataError

BEFORE = {"a.py": "one\ntwo\nthree\n", "gone.py": "x\n", "old.py": "same\n", "bare.py": "a\nb"}
DIFF = """\
diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 one
-two
+2
 three
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/old.py b/new.py
similarity index 100%
rename from old.py
rename to new.py
diff --git a/bare.py b/bare.py
--- a/bare.py
+++ b/bare.py
@@ -1,2 +1,2 @@
 a
-b
\\ No newline at end of file
+c
diff --git a/tests/test_a.py b/tests/test_a.py
new file mode 100644
--- /dev/null
+++ b/tests/test_a.py
@@ -0,0 +1 @@
+pass
\\ No newline at end of file
"""


def test_a_diff_changes_removes_renames_and_makes_files():
    assert apply_diff(BEFORE, DIFF) == {
        "a.py": "one\n2\nthree\n",
        "new.py": "same\n",
        "bare.py": "a\nc\n",
        "tests/test_a.py": "pass",
    }


def test_the_solution_is_the_diff_without_its_tests():
    solution = without_tests(DIFF)

    assert "test_a.py" not in solution
    assert "tests/test_a.py" not in apply_diff(BEFORE, solution)
    assert apply_diff(BEFORE, solution)["a.py"] == "one\n2\nthree\n"


LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "  c\n", "-d\n", "x\x0cy\n"]), max_size=12)


@settings(max_examples=20)
@given(before=LINES, after=LINES, context=st.integers(0, 3))
def test_what_difflib_tells_of_two_texts_makes_the_one_of_the_other(before, after, context):
    diff = "".join(difflib.unified_diff(before, after, "a/f.py", "b/f.py", n=context))

    if diff:
        assert apply_diff({"f.py": "".join(before)}, diff) == {"f.py": "".join(after)}


def head(source, target, hunk="@@ -1 +1 @@\n-one\n+1\n"):
    return f"--- {source}\n+++ {target}\n{hunk}"


@pytest.mark.parametrize(
    ("diff", "told"),
    [
        ("no diff", "not a unified diff: it changes no file"),
        ("@@ -1 +1 @@\n-a\n", "not a unified diff: Unexpected hunk"),
        (head("a/a.py", "b/a.py", "@@ -2 +2 @@\n-one\n+1\n"), "does not fit a.py at line 2"),
        (head("a/a.py", "b/a.py", "@@ -9 +9 @@\n-one\n+1\n"), "does not fit a.py at line 9"),
        (head("a/no.py", "b/no.py"), "no.py, a missing file"),
        (head("/dev/null", "b/a.py", "@@ -0,0 +1 @@\n+1\n"), "a.py, an existing file"),
        (head("/dev/null", "b/../a.py", "@@ -0,0 +1 @@\n+1\n"), "must be relative"),
        (head("/dev/null", "/a.py", "@@ -0,0 +1 @@\n+1\n"), "must be relative"),
        (
            "diff --git a/b b/b\nindex 1..2\nBinary files a/b and b/b differ\n",
            "b, a binary file",
        ),
    ],
)
def test_a_diff_that_cannot_be_applied_is_refused(diff, told):
    with pytest.raises(DataError, match=told):
        apply_diff(BEFORE, diff)
