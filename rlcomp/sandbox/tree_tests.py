"""Runner of the tests of a repository in another sandbox, one by one.

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
from rlcomp.sandbox.tree_stand_ins import Ask, RepositoryFinder

_LONGEST = 1000  # most characters of a fault in the message


class Result(unittest.TestResult):
    """The result of one test; a skipped test has not passed."""

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__()
        self.files = files
        self.passed = False
        self.faults: list[str] = []

    def addSuccess(self, test: unittest.TestCase) -> None:
        """Record that the test passed; subtests may still have failed."""
        self.passed = True

    def addError(self, test: object, err: Any) -> None:  # noqa: ANN401
        """Record an exception of the test."""
        self.faults.append(told(err[1], self.files))

    addFailure = addError

    def addSubTest(self, test: object, subtest: object, err: Any) -> None:  # noqa: ANN401
        """Record the end of a subtest."""
        if err is not None:
            self.addError(test, err)


def told(error: BaseException, files: Mapping[str, str]) -> str:
    """Describe an exception, with the last line of the tests in its traceback."""
    text = "".join(traceback.format_exception_only(error)).strip()[:_LONGEST]
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename in files]
    return (
        f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}\n{text}" if frames else text
    )


class Tests:
    """The tests of some files.

    Args:
        files: texts by path.
        ask: sends a request to the repository.
    """

    def __init__(self, files: Mapping[str, str], ask: Ask) -> None:
        self.files = files
        folders = dict.fromkeys(path[: path.rfind("/") + 1] for path in files)
        roots = dict.fromkeys(["", "src/", *folders])
        self.finders = [TreeFinder(files, [*roots]), RepositoryFinder(ask), FolderFinder(files)]
        sys.meta_path += self.finders

    def one(self, name: str) -> None:
        """Run a test, ``path::function`` or ``path::Class::method``.

        Raises:
            AssertionError: the test has not passed; says why.
        """
        path, *inner = name.split("::")
        faults = self._faults(self._case(path, inner))
        if faults:
            raise AssertionError("\n".join(faults))

    def _module(self, path: str) -> ModuleType:
        return importlib.import_module(
            path.removesuffix(".py").removeprefix("src/").replace("/", ".")
        )

    def _case(self, path: str, inner: Sequence[str]) -> unittest.TestCase:
        target: Any = self._module(path)
        *outer, last = inner
        for each in outer:
            target = getattr(target, each)
        if isinstance(target, type) and issubclass(target, unittest.TestCase):
            return target(last)
        return unittest.FunctionTestCase(
            getattr(target() if isinstance(target, type) else target, last)
        )

    def _faults(self, case: unittest.TestCase) -> list[str]:
        result = Result(self.files)
        unittest.TestSuite([case]).run(result)
        return result.faults or ([] if result.passed else ["it did not run to its end"])

    def every(self) -> None:
        """Run all tests of all files, and print each failure.

        Raises:
            AssertionError: a test has not passed, or there is none.
        """
        passed = failed = 0
        for name in [each for path in sorted(self.files) for each in self._names(path)]:
            try:
                self.one(name)
                passed += 1
            except BaseException as error:
                failed += 1
                print(f"FAILED {name}\n{error}", flush=True)
        print(f"{passed} passed, {failed} failed", flush=True)
        if failed or not passed:
            raise AssertionError

    def _names(self, path: str) -> list[str]:
        if not path.endswith(".py") or not path.rpartition("/")[2].startswith("test"):
            return []
        try:
            module = self._module(path)
        except BaseException:
            return [path]  # running it raises the same exception again
        own = {
            k: v for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
        }
        names = [name for name, value in own.items() if isinstance(value, FunctionType)]
        for name, kind in own.items():
            if isinstance(kind, type):
                names += [f"{name}::{each}" for each in dir(kind)]
        return [f"{path}::{name}" for name in names if name.rpartition("::")[2].startswith("test")]
