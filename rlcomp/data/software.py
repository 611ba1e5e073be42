"""Software tasks: a change of a repository as an issue with hidden tests."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlcomp.columns import column_text
from rlcomp.data.patches import apply_diff, without_tests
from rlcomp.errors import DataError
from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.sandbox.tree import Tree, is_test, job_of, passed, tree_fault

_MOST_TESTS = 300


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of a repository, from a diff or a commit.

    Attributes:
        name: name of the diff or the commit.
        issue: text of the issue.
        before: the repository before the change.
        diff: the change, with its tests.
    """

    name: str
    issue: str
    before: Tree
    diff: str


def tasks_of(
    changes: Iterable[Change], runner: ProgramRunner, limits: Limits
) -> tuple[list[dict[str, object]], dict[str, str]]:
    """Return rows for ``task=file environment=repository``, and the faults of dropped changes."""
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
    before the change and twice after it. Tests in ``fail_to_pass`` fail before and pass after;
    tests in ``pass_to_pass`` pass before and after; other tests do not count. At least one test
    must fail before. Finally all of them run together, as in a verdict.

    Raises:
        DataError: the change makes no task; the message says why.
        RlcompError: the sandbox failed.

    Source:
        Jimenez et al. 2024 (SWE-bench), arXiv:2310.06770, section 2.1.
    """
    if not change.issue.strip():
        raise DataError("it has no issue: say in a text what is to be done")
    after = apply_diff(change.before, change.diff)
    for when, files in (("before", change.before), ("after", after)):
        if fault := tree_fault(files):
            raise DataError(f"the repository {when} the change: {fault}")
    hidden = {path: text for path, text in after.items() if is_test(path)}
    names = [name for path, text in hidden.items() for name in names_of_tests(path, text)]
    if not 0 < len(names) <= _MOST_TESTS:
        raise DataError(f"it has {len(names)} tests after the change, not 1 to {_MOST_TESTS}")
    failed, right = (
        _outcomes(files, hidden, names, runner, limits) for files in (change.before, after)
    )
    again = _outcomes(after, hidden, names, runner, limits)
    sure = [name for name in names if right[name] and again[name]]
    broken = [name for name in sure if not failed[name]]
    if not broken:
        count = f"of {len(names)} tests {len(sure)} pass after the change"
        raise DataError(f"no test fails before the change and passes after it ({count})")
    (together,) = runner.map([job_of(after, hidden, sure, limits)])
    if together.status != "passed":
        raise DataError(f"its tests pass alone and not together: {together.message}")
    row: dict[str, object] = {
        "question": change.issue,
        "answer": without_tests(change.diff),
        "files": dict(change.before),
        "hidden_tests": hidden,
        "fail_to_pass": broken,
        "pass_to_pass": [name for name in sure if failed[name]],
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
        name: passed(outcome, [name])[name] for name, outcome in zip(names, outcomes, strict=True)
    }


def names_of_tests(path: str, source: str) -> list[str]:
    """Return the names of a file's tests, ``path::function`` and ``path::Class::method``.

    Raises:
        DataError: it is a Python file that does not parse.

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
    names = _functions(body)
    for node in body:
        if isinstance(node, ast.ClassDef):
            names += [f"{node.name}::{each}" for each in _functions(node.body)]
    return [f"{path}::{each}" for each in names]


def _functions(body: list[ast.stmt]) -> list[str]:
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    return [name for name in functions if name.startswith("test")]
