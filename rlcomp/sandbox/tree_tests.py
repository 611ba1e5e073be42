"""Runner of the tests of a repository in another jail.

This module is sent into the sandbox as text.
"""

from __future__ import annotations

import importlib
import sys
import traceback
import unittest
from collections.abc import Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

from rlcomp.sandbox.tree_modules import FolderFinder, TreeFinder
from rlcomp.sandbox.tree_proxies import Ask, RepositoryFinder

_MAX_MESSAGE = 1000  # maximum number of characters of an error message


class SingleTestResult(unittest.TestResult):
    """Result of one test; a test that is skipped or expected to fail has not passed.

    Args:
        files: texts of the tests by path.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__()
        self.files = files
        self.passed = False
        self.faults: list[str] = []

    def addSuccess(self, test: unittest.TestCase) -> None:
        """Record that the test and its subtests passed."""
        self.passed = True

    def addError(self, test: object, err: Any) -> None:  # noqa: ANN401
        """Record an exception of the test."""
        self.faults.append(describe_exception(err[1], self.files))

    addFailure = addError

    def addSubTest(self, test: object, subtest: object, err: Any) -> None:  # noqa: ANN401
        """Record the end of a subtest."""
        if err is not None:
            self.addError(test, err)


def describe_exception(error: BaseException, files: Mapping[str, str]) -> str:
    """Return an exception as text, with the last line of the tests in its traceback."""
    text = "".join(traceback.format_exception_only(error)).strip()[:_MAX_MESSAGE]
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files
    ]
    if not frames:
        return text
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}\n{text}"


class Tests:
    """Runner of the tests in some files.

    Args:
        files: texts by path.
        ask: function that sends a request to the repository and returns the answer.
    """

    def __init__(self, files: Mapping[str, str], ask: Ask) -> None:
        self.files = files
        folders = dict.fromkeys(path[: path.rfind("/") + 1] for path in files)
        roots = dict.fromkeys(["", "src/", *folders])
        self.finders = [TreeFinder(files, [*roots]), RepositoryFinder(ask), FolderFinder(files)]
        sys.meta_path += self.finders

    def run_test(self, name: str) -> None:
        """Run the test ``path::function`` or ``path::Class::method``.

        Raises:
            AssertionError: the test has not passed; the message lists its errors.
            BaseException: the test's module raises this exception, or has no such test.
        """
        path, *path_in_module = name.split("::")
        faults = self._faults(self._case(path, path_in_module))
        if faults:
            raise AssertionError("\n".join(faults))

    def _module(self, path: str) -> ModuleType:
        return importlib.import_module(
            path.removesuffix(".py").removeprefix("src/").replace("/", ".")
        )

    def _case(self, path: str, path_in_module: Sequence[str]) -> unittest.TestCase:
        target: Any = self._module(path)
        *outer, last = path_in_module
        for each in outer:
            target = getattr(target, each)
        if isinstance(target, type) and issubclass(target, unittest.TestCase):
            return target(last)
        return unittest.FunctionTestCase(
            getattr(target() if isinstance(target, type) else target, last)
        )

    def _faults(self, case: unittest.TestCase) -> list[str]:
        result = SingleTestResult(self.files)
        unittest.TestSuite([case]).run(result)
        return result.faults or ([] if result.passed else ["it did not run to its end"])

    def run_all(self) -> None:
        """Run all tests of the files ``test*.py``, and print each failure.

        A test is a function or a method of any class, with a name that begins with ``test``.

        Raises:
            AssertionError: a test has not passed, or there are no tests.
        """
        passed = failed = 0
        for name in [each for path in sorted(self.files) for each in self._names(path)]:
            try:
                self.run_test(name)
                passed += 1
            except BaseException as error:
                failed += 1
                print(f"FAILED {name}\n{error}", flush=True)
        print(f"{passed} passed, {failed} failed", flush=True)
        if failed or not passed:
            raise AssertionError

    def _names(self, path: str) -> list[str]:
        stem = path.rpartition("/")[2].removesuffix(".py")
        if not path.endswith(".py") or not (stem.startswith("test") or stem.endswith("_test")):
            return []
        try:
            module = self._module(path)
        except BaseException:
            return [path]  # running it raises the same exception again
        module_members = {
            k: v for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
        }
        names = [name for name, value in module_members.items() if isinstance(value, FunctionType)]
        for name, kind in module_members.items():
            if isinstance(kind, type):
                names += [f"{name}::{each}" for each in dir(kind)]
        return [f"{path}::{name}" for name in names if name.rpartition("::")[2].startswith("test")]
