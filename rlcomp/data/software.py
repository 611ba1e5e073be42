"""Software tasks: a change of a repository, a unified diff, as an issue with hidden tests."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rlcomp.columns import column_text
from rlcomp.errors import DataError, require
from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.sandbox.tree import Tree, is_test, job_of, path_fault, tree_fault, verdicts_by_name

_MOST_TESTS = 300  # each runs three times, in a sandbox of its own


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of a repository, from a diff or a commit.

    Attributes:
        name: name of the diff or the commit.
        issue: text of the issue.
        before: the repository before the change: its texts by path.
        diff: the change, with its tests.
    """

    name: str
    issue: str
    before: Tree
    diff: str


def tasks_of(
    changes: Iterable[Change], runner: ProgramRunner, limits: Limits
) -> tuple[list[dict[str, object]], dict[str, str]]:
    """Return rows for ``task=file environment=repository``, and the faults of other changes."""
    rows: list[dict[str, object]] = []
    dropped: dict[str, str] = {}
    for change in changes:
        try:
            rows.append(task_of(change, runner, limits))
        except DataError as error:
            dropped[change.name] = str(error)
    return rows, dropped


def task_of(change: Change, runner: ProgramRunner, limits: Limits) -> dict[str, object]:
    """Return the row of a change: issue, repository and hidden tests.

    The hidden tests are the test files after the change. Each test runs alone in the sandbox, once
    before the change and twice after it. Tests in ``fail_to_pass`` fail before and pass both times
    after; tests in ``pass_to_pass`` pass each time; other tests do not count. ``fail_to_pass`` must
    not be empty. Finally the tests that count run together, as in a verdict, and must pass.

    Raises:
        DataError: the change makes no task.
        RlcompError: the sandbox failed.

    Source:
        Jimenez et al. 2024 (SWE-bench), arXiv:2310.06770, section 2.1.
    """
    if not change.issue.strip():
        raise DataError("it has no issue: describe the task in a text")
    after = apply_diff(change.before, change.diff)
    for when, files in (("before", change.before), ("after", after)):
        if fault := tree_fault(files):
            raise DataError(f"the repository {when} the change: {fault}")
    hidden = {path: text for path, text in after.items() if is_test(path)}
    names = [name for path, text in hidden.items() for name in names_of_tests(path, text)]
    if not 0 < len(names) <= _MOST_TESTS:
        raise DataError(f"it has {len(names)} tests after the change, not 1 to {_MOST_TESTS}")
    passed_before, passed_after, passed_again = (
        _outcomes(files, hidden, names, runner, limits) for files in (change.before, after, after)
    )
    passing = [name for name in names if passed_after[name] and passed_again[name]]
    fail_to_pass = [name for name in passing if not passed_before[name]]
    if not fail_to_pass:
        count = f"of {len(names)} tests {len(passing)} pass after the change"
        raise DataError(f"no test fails before the change and passes after it ({count})")
    (together,) = runner.map([job_of(after, hidden, passing, limits)])
    if together.status != "passed":
        raise DataError(f"its tests pass alone and not together: {together.message}")
    row: dict[str, object] = {
        "question": change.issue,
        "answer": without_tests(change.diff),
        "files": dict(change.before),
        "hidden_tests": hidden,
        "fail_to_pass": fail_to_pass,
        "pass_to_pass": [name for name in passing if passed_before[name]],
    }
    for name, value in row.items():
        column_text(change.name, name, value)
    return row


def _outcomes(
    files: Tree, hidden: Tree, names: list[str], runner: ProgramRunner, limits: Limits
) -> Mapping[str, bool]:
    """Return whether each test passes; each has its own sandbox, so that a hang affects one."""
    outcomes = runner.map([job_of(files, hidden, [name], limits) for name in names])
    return {
        name: verdicts_by_name(outcome, [name])[name]
        for name, outcome in zip(names, outcomes, strict=True)
    }


def names_of_tests(path: str, source: str) -> list[str]:
    """Return the names of a file's tests, ``path::function`` and ``path::Class::method``.

    Only files ``test*.py`` and ``*_test.py`` have tests.

    Raises:
        DataError: the file is a Python file that does not parse.

    Examples:
        >>> names_of_tests("test_a.py", "def test_it(): pass")
        ['test_a.py::test_it']
    """
    file = path.rpartition("/")[2]
    if not file.endswith(".py") or not (file.startswith("test") or file.endswith("_test.py")):
        return []
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"{path} is no Python: {error}") from error
    names = _test_functions(body)
    for node in body:
        if isinstance(node, ast.ClassDef):
            names += [f"{node.name}::{method}" for method in _test_functions(node.body)]
    return [f"{path}::{name}" for name in names]


def _test_functions(body: list[ast.stmt]) -> list[str]:
    """Return the names of the functions of a body that begin with ``test``."""
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    return [name for name in functions if name.startswith("test")]


def apply_diff(files: Tree, diff: str) -> dict[str, str]:
    """Return the repository after a diff; every hunk must fit at the line it names.

    Raises:
        DataError: the diff is no unified diff, changes no file or a binary one, names a path
            outside the repository, or does not fit; the message names file and line.
        MissingExtra: unidiff is not installed.
    """
    changed = dict(files)
    for patch in _parse_diff(diff):
        source, target = _paths(patch)
        if patch.is_binary_file:
            raise DataError(f"the diff changes {patch.path}, a binary file")
        if source and source not in changed:
            raise DataError(f"the diff changes {source}, a missing file")
        if target and target != source and target in changed:
            raise DataError(f"the diff creates {target}, an existing file")
        text = changed.pop(source) if source else ""
        patched = _apply_hunks(source or target, text, patch)
        if target:
            changed[target] = patched
    return changed


def without_tests(diff: str) -> str:
    """Return the solution: a diff without its changes of tests.

    Raises:
        DataError: the text is no unified diff.
        MissingExtra: unidiff is not installed.
    """
    return "".join(str(patch) for patch in _parse_diff(diff) if not is_test(patch.path))


def _parse_diff(diff: str) -> list[Any]:
    unidiff = require("unidiff", "software")
    try:
        patches = [*unidiff.PatchSet(diff)]
    except unidiff.UnidiffParseError as error:
        raise DataError(f"not a unified diff: {str(error).strip():.200}") from error
    if not patches:
        raise DataError("not a unified diff: it changes no file")
    return patches


def _paths(patch: Any) -> tuple[str, str]:  # noqa: ANN401
    """Return the old and the new path of a file; '' if it is created or deleted."""
    source, target = (
        "" if path == "/dev/null" else path.removeprefix(prefix)
        for path, prefix in ((patch.source_file, "a/"), (patch.target_file, "b/"))
    )
    for path in filter(None, (source, target)):
        if fault := path_fault(path):
            raise DataError(f"the diff: {fault}")
    return source, target


def _apply_hunks(path: str, text: str, patch: Any) -> str:  # noqa: ANN401
    """Return the text of a file after its hunks."""
    lines = [*io.StringIO(text, newline="\n")]
    result: list[str] = []
    num_copied = 0
    for hunk in patch:
        old, new = _hunk_sides(hunk)
        # Lines count from 1. A hunk without old lines names the line before its place.
        start = hunk.source_start - 1 if old else hunk.source_start
        if start < num_copied or lines[start : start + len(old)] != old:
            raise DataError(f"the diff does not fit {path} at line {hunk.source_start}")
        result += lines[num_copied:start] + new
        num_copied = start + len(old)
    return "".join(result + lines[num_copied:])


def _hunk_sides(hunk: Any) -> tuple[list[str], list[str]]:  # noqa: ANN401
    """Return the old and the new lines of a hunk, both with the context."""
    old: list[str] = []
    new: list[str] = []
    target_sides: list[list[str]] = []
    for line in hunk:
        if line.line_type == "\\":  # the previous line has no line break
            for side in target_sides:
                side[-1] = side[-1].removesuffix("\n")
            continue
        sides = ((old, line.is_added), (new, line.is_removed))
        target_sides = [side for side, is_absent in sides if not is_absent]
        for side in target_sides:
            side.append(line.value)
    return old, new
