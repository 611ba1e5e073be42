"""Repositories as texts by path, and their tests as jobs of the sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from rlcomp.errors import DataError
from rlcomp.sandbox.job import CheckJob, Limits
from rlcomp.sandbox.outcome import Outcome

Tree = Mapping[str, str]

MOST_FILES = 500
LONGEST_FILE, LONGEST_TREE = 200_000, 1_000_000  # characters
_LONGEST_PATH = 200

# Start of both programs; it makes modules from texts, because the programs have no files.
_START = """
import sys, types
sys.modules.pop(__name__)  # the repository may have a module of this name
for name, text in {modules!r}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec", dont_inherit=True), vars(module))
"""
_PACKAGE = "rlcomp.sandbox"
_TEST_FILE = re.compile(r"(^|/)(tests?/|conftest\.py$|test_[^/]*\.py$|[^/]*_test\.py$)")


def path_fault(path: str) -> str:
    """Return the problem of a path of a repository; '' if there is none.

    Examples:
        >>> path_fault("../a.py"), path_fault("a/b.py")
        ("'../a.py' must be relative, a/b.py, without '..'", '')
    """
    if not 0 < len(path) <= _LONGEST_PATH:
        return f"a path must have 1 to {_LONGEST_PATH} characters"
    plain = PurePosixPath(path)
    if plain.is_absolute() or ".." in plain.parts or str(plain) != path or not path.isprintable():
        return f"{path!r} must be relative, a/b.py, without '..'"
    return ""


def tree_fault(files: Tree) -> str:
    """Return the problem of a repository; '' if there is none."""
    if len(files) > MOST_FILES:
        return f"{len(files)} files, more than {MOST_FILES}"
    for path, text in files.items():
        if len(text) > LONGEST_FILE:
            return f"{path} has {len(text)} characters, more than {LONGEST_FILE}"
    if (size := sum(map(len, files.values()))) > LONGEST_TREE:
        return f"{size} characters in all, more than {LONGEST_TREE}"
    return next(filter(None, map(path_fault, files)), "")


def read_tree(value: object, name: str) -> dict[str, str]:
    """Return the repository in a column.

    Raises:
        DataError: the column is not a mapping of paths to texts, or exceeds a limit.
    """
    if not isinstance(value, Mapping) or not all(
        isinstance(each, str) for pair in value.items() for each in pair
    ):
        raise DataError(
            f"the column {name!r} is {value!r:.80}: must be a mapping of paths to texts"
        )
    if fault := tree_fault(value):
        raise DataError(f"the column {name!r}: {fault}")
    return dict(value)


def is_test(path: str) -> bool:
    """Return whether a file belongs to the tests.

    It does if it is in a folder ``test`` or ``tests``, or is called ``test_*.py``, ``*_test.py`` or
    ``conftest.py``.

    Examples:
        >>> is_test("tests/data.py"), is_test("pkg/test_a.py"), is_test("pkg/latest.py")
        (True, True, False)
    """
    return _TEST_FILE.search(path) is not None


def job_of(files: Tree, tests: Tree, names: Sequence[str], limits: Limits) -> CheckJob:
    """Return a job that runs a repository and its tests in two jails.

    Args:
        files: texts of the repository by path; those of its tests, and of paths in ``tests``, are
            left out.
        tests: texts by path of the tests, and of other files that they need.
        names: tests to run, ``path::function`` or ``path::Class::method``; empty: run all tests
            and print the failures.
        limits: limits of each jail.
    """
    served = {path: text for path, text in files.items() if path not in tests and not is_test(path)}
    candidate = (
        f"{_start('tree_server')}from {_PACKAGE}.tree_server import RepositoryServer\n"
        f"ask = RepositoryServer({_literal(served)}).ask\n"
    )
    setup = (
        f"{_start('tree_proxies', 'tree_tests')}from {_PACKAGE}.tree_tests import Tests\n"
        f"tests = Tests({_literal(tests)}, candidate)\n"
    )
    runs = [f"tests.run_test({name!r})" for name in names] or ["tests.run_all()"]
    return CheckJob(candidate, (setup, *runs), "ask", limits)


def verdicts_by_name(outcome: Outcome, names: Sequence[str]) -> dict[str, bool]:
    """Return whether each test of a job passed; a test that did not run has not passed."""
    # The first text of the job is the set-up, not a test.
    verdicts = [*outcome.tests[1:], *[False] * len(names)]
    return dict(zip(names, verdicts, strict=False))


def _start(*modules: str) -> str:
    texts = [
        (f"{_PACKAGE}.{name}", Path(__file__).with_name(f"{name}.py").read_text("utf-8"))
        for name in ("tree_modules", *modules)
    ]
    return _START.format(modules=texts)


def _literal(files: Tree) -> str:
    return repr(dict(sorted(files.items())))
