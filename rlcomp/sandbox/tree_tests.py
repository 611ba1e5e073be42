"""Tests of a repository that is in another sandbox, run one by one.

Sent into the sandbox as text.
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

_LONGEST = 1000  # characters that are told of a fault


class Result(unittest.TestResult):
    """What became of one test; a skipped one has not passed."""

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__()
        self.files = files
        self.passed = False
        self.faults: list[str] = []

    def addSuccess(self, test: unittest.TestCase) -> None:
        """It passed, but for parts of it."""
        self.passed = True

    def addError(self, test: object, err: Any) -> None:  # noqa: ANN401
        """It raised."""
        self.faults.append(told(err[1], self.files))

    addFailure = addError

    def addSubTest(self, test: object, subtest: object, err: Any) -> None:  # noqa: ANN401
        """A part of it ended."""
        if err is not None:
            self.addError(test, err)


def told(error: BaseException, files: Mapping[str, str]) -> str:
    """An exception, and the last line of the tests that it passed."""
    said = "".join(traceback.format_exception_only(error)).strip()[:_LONGEST]
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename in files]
    return (
        f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}\n{said}" if frames else said
    )


class Tests:
    """The tests of some files.

    Args:
        files: texts by path.
        ask: the repository.
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
            AssertionError: it has not passed; says why.
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
        found: Any = self._module(path)
        *outer, last = inner
        for each in outer:
            found = getattr(found, each)
        if isinstance(found, type) and issubclass(found, unittest.TestCase):
            return found(last)
        return unittest.FunctionTestCase(
            getattr(found() if isinstance(found, type) else found, last)
        )

    def _faults(self, case: unittest.TestCase) -> list[str]:
        result = Result(self.files)
        unittest.TestSuite([case]).run(result)
        return result.faults or ([] if result.passed else ["it did not run to its end"])

    def every(self) -> None:
        """Run all tests of all files, and print what became of each that did not pass.

        Raises:
            AssertionError: one has not passed, or there is none.
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
            return [path]  # which raises the same again
        own = {
            k: v for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
        }
        names = [name for name, value in own.items() if isinstance(value, FunctionType)]
        for name, kind in own.items():
            if isinstance(kind, type):
                names += [f"{name}::{each}" for each in dir(kind)]
        return [f"{path}::{name}" for name in names if name.rpartition("::")[2].startswith("test")]
