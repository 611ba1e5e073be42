"""Reward of code by unit tests."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.errors import DataError
from rlcomp.interfaces.code_reward import CodeReward, named
from rlcomp.sandbox.job import CheckJob
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.verify.columns import column


class UnitTests(NamedTuple):
    """What goes before the program, the tests' sources, the function, and how many tests count."""

    prefix: str
    sources: tuple[str, ...]
    entry_point: str
    asked: int


class CodeTests(CodeReward):
    """1 if the response's function passes its unit tests, else 0.

    Function and tests run in two jails, and plain data goes from one to the other: the function
    never sees a test (docs/sandbox.md).

    Reads, writes, records and named parts: see :class:`rlcomp.interfaces.code_reward.CodeReward`.

    Args:
        tests: column: a list of sources, each a test, such as ``["assert f(1) == 2"]`` (MBPP), or
            one source that defines ``check(candidate)``, which is one test (HumanEval).
        entry_point: column that names the function; null: the first name that the first test of
            the list calls and that neither Python nor ``setup`` has.
        setup: column with a source, or a list of them, that goes before the first test: imports,
            helpers; null: none.
        prefix: column with what goes before the program, so that it may go on in the middle of a
            function; null: nothing. ``prompt``: the prompt as the task words it. The part
            ``linter`` reads the program without it.
        sandbox: runs the programs.
        where: the program is the one ``block`` between fences, or the ``whole`` response.
        timeout: limit of a program, and of all of its tests together, in seconds.
        memory_mib: limit of each, in MiB.
        weights: of the parts; those that are not named weigh 0.
        measure: whether ``run_time`` and ``peak_memory`` are parts: two runs then differ by them.
        lint: ruff's rules for the part ``linter``; null: no such part.

    Raises:
        ConfigError: as in ``CodeReward``.
        DataError: a column is missing, or is nothing of the kind told above.
        MissingExtra: ``lint``, and ruff is not installed (extra ``verify``).

    Source:
        Chen et al. 2021 (HumanEval), arXiv:2107.03374; Austin et al. 2021 (MBPP), arXiv:2108.07732.
    """

    name = "code_tests"
    job_kind = CheckJob

    def __init__(
        self,
        *,
        sandbox: ProgramRunner,
        tests: NonEmptyText = "test_list",
        entry_point: NonEmptyText | None = None,
        setup: NonEmptyText | None = "test_imports",
        prefix: NonEmptyText | None = None,
        where: Literal["block", "whole"] = "block",
        timeout: PositiveFloat = 5.0,
        memory_mib: PositiveInt = 512,
        weights: dict[str, float] | None = None,
        measure: bool = False,
        lint: Sequence[str] | None = None,
    ) -> None:
        super().__init__(
            sandbox=sandbox,
            where=where,
            timeout=timeout,
            memory_mib=memory_mib,
            weights=weights,
            measure=measure,
            lint=lint,
        )
        self.tests = tests
        self.entry_point = entry_point
        self.setup = setup
        self.prefix = prefix

    @property
    def needed_columns(self) -> frozenset[str]:
        """Tests, and what else is asked for."""
        return named(self.tests, self.entry_point, self.setup, self.prefix)

    def tests_of(self, row: Mapping[str, object]) -> UnitTests:
        """The tests of a row."""
        sources = _texts(row, self.tests)
        setup = "".join(f"{text}\n" for text in _texts(row, self.setup, least=0))
        prefix = "".join(_texts(row, self.prefix, least=0))
        if self.entry_point is not None:
            entry = "".join(_texts(row, self.entry_point))
        else:
            entry = _first_called(sources[0], setup, self.tests)
        return UnitTests(prefix, (setup + sources[0], *sources[1:]), entry, len(sources))

    def jobs(self, code: str, tests: UnitTests) -> list[CheckJob]:
        """One job with all tests."""
        return [CheckJob(tests.prefix + code, tests.sources, tests.entry_point, self.limits)]

    def verdicts(self, tests: UnitTests, outcomes: Sequence[Outcome]) -> list[bool]:
        """Which tests passed; those that were not reached did not."""
        (outcome,) = outcomes
        if tests.asked == 1:  # perhaps a source that defines check: then two are told
            return [outcome.status == "passed"]
        return [*outcome.tests, *[False] * tests.asked][: tests.asked]


def _texts(row: Mapping[str, object], name: str | None, *, least: int = 1) -> list[str]:
    """The texts of a column, which holds one or a list of them; none where there is no name."""
    if name is None:
        return []
    value = column(row, name, "reward=code_tests")
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or len(found) < least or not _all_texts(found):
        raise DataError(
            f"the column {name!r} is {value!r:.80}: must be a text, or a list of at least {least}"
        )
    return found


def _all_texts(values: Sequence[object]) -> bool:
    """Whether all of some values are texts."""
    return all(isinstance(each, str) for each in values)


def _first_called(test: str, setup: str, name: str) -> str:
    """The function that a test is about.

    Raises:
        DataError: the tests are no Python, or call nothing.
    """
    try:
        known = {*dir(builtins), *_bound(ast.parse(setup))}
        nodes = [*ast.walk(ast.parse(test))]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"the column {name!r} holds a test that is no Python: {error}") from error
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    places = [
        (func.lineno, func.col_offset, func.id)
        for func in calls
        if isinstance(func, ast.Name) and func.id not in known
    ]
    if not places:
        raise DataError(
            f"the column {name!r} holds a test that calls no function by its name: {test!r:.80}; "
            "set reward.entry_point to a column that names it"
        )
    return min(places)[2]


def _bound(tree: ast.Module) -> set[str]:
    """Names that a source imports, defines or assigns at its top."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
    return found
