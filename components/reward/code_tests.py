"""Reward of code by unit tests."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.errors import DataError
from rlcomp.interfaces.code_reward import CodeReward, column_names
from rlcomp.sandbox.job import CheckJob
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.verify.answers import column


class UnitTests(NamedTuple):
    """Unit tests of a row.

    Attributes:
        prefix: code before the program.
        sources: sources of the tests; the first one begins with the setup.
        entry_point: name of the tested function.
        number: number of tests.
    """

    prefix: str
    sources: tuple[str, ...]
    entry_point: str
    number: int


class CodeTests(CodeReward):
    """Reward 1 if the response's function passes its unit tests, else 0.

    Function and tests run in two jails that exchange plain data, so that the function never sees a
    test (docs/sandbox.md).

    Reads, writes, records and named parts: see :class:`rlcomp.interfaces.code_reward.CodeReward`.

    Args:
        tests: column: a list of test sources, such as ``["assert f(1) == 2"]`` (MBPP), or one
            source that defines ``check(candidate)`` and counts as one test (HumanEval).
        entry_point: column that names the function; null: the first name that the first test
            calls and that neither Python nor ``setup`` defines.
        setup: column with one or several sources that run before the first test (imports,
            helpers); null: none.
        prefix: column with code before the program, so that the program may continue a function;
            null: none. ``prompt``: the prompt as the task words it. The part ``linter`` reads the
            program without the prefix.
        sandbox: the sandbox that runs the programs.
        where: place of the program: the only ``block`` between fences, or the ``whole`` response.
        timeout: time limit of a program, and of all its tests together, in seconds.
        memory_mib: memory limit of the program, and of its tests, in MiB.
        weights: weights of the parts; a part that is left out has weight 0. None: ``passed`` has
            weight 1.
        measure: whether ``run_time`` and ``peak_memory`` are parts; they make runs differ.
        lint: ruff's rules for the part ``linter``; null: no such part.

    Raises:
        ConfigError: as in ``CodeReward``.
        DataError: a column is missing or malformed.
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
        """Return the columns of the tests, and the other columns that are named."""
        return column_names(self.tests, self.entry_point, self.setup, self.prefix)

    def tests_of(self, row: Mapping[str, object]) -> UnitTests:
        """Return the tests of a row."""
        sources = _texts(row, self.tests)
        setup = "".join(f"{text}\n" for text in _texts(row, self.setup, min_count=0))
        prefix = "".join(_texts(row, self.prefix, min_count=0))
        if self.entry_point is not None:
            entry = "".join(_texts(row, self.entry_point))
        else:
            entry = _tested_function(sources[0], setup, self.tests)
        return UnitTests(prefix, (setup + sources[0], *sources[1:]), entry, len(sources))

    def jobs(self, code: str, tests: UnitTests) -> list[CheckJob]:
        """Return one job with all tests."""
        return [CheckJob(tests.prefix + code, tests.sources, tests.entry_point, self.limits)]

    def verdicts(self, tests: UnitTests, outcomes: Sequence[Outcome]) -> list[bool]:
        """Return for each test whether it passed; False if it was not reached."""
        (outcome,) = outcomes
        if tests.number == 1:  # a source that defines check gives two results
            return [outcome.status == "passed"]
        return [*outcome.tests, *[False] * tests.number][: tests.number]


def _texts(row: Mapping[str, object], name: str | None, *, min_count: int = 1) -> list[str]:
    """Return the texts of a column with one text or a list; an empty list without a name."""
    if name is None:
        return []
    value = column(row, name, "reward=code_tests")
    texts = [value] if isinstance(value, str) else value
    if (
        not isinstance(texts, list)
        or len(texts) < min_count
        or not all(isinstance(text, str) for text in texts)
    ):
        raise DataError(
            f"the column {name!r} is {value!r:.80}: must be a text, or a list of at "
            f"least {min_count}"
        )
    return texts


def _tested_function(test: str, setup: str, name: str) -> str:
    """Return the first function that a test calls and that neither Python nor the setup defines.

    Args:
        test: source of the test.
        setup: source that runs before the test.
        name: column of the test, for messages.

    Raises:
        DataError: the sources are no Python, or the test calls no such function.
    """
    try:
        known = {*dir(builtins), *_defined_names(setup)}
        nodes = [*ast.walk(ast.parse(test))]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"the column {name!r} holds a test that is no Python: {error}") from error
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    named = [
        (func.lineno, func.col_offset, func.id)
        for func in calls
        if isinstance(func, ast.Name) and func.id not in known
    ]
    if not named:
        raise DataError(
            f"the column {name!r} holds a test that calls no function by its name: {test!r:.80}; "
            "set reward.entry_point to a column that names it"
        )
    return min(named)[2]


def _defined_names(source: str) -> set[str]:
    """Return the names that a source imports, defines or assigns outside of its functions."""
    symbols = symtable.symtable(source, "setup", "exec").get_symbols()
    return {name.get_name() for name in symbols if name.is_assigned() or name.is_imported()}
