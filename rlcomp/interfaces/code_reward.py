"""Base class of rewards that run the response's program in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rlcomp.arguments import PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError, nearest
from rlcomp.interfaces.reward import TextReward, row_note
from rlcomp.interfaces.scores import Score
from rlcomp.metrics import record
from rlcomp.sandbox.job import MEBIBYTE, Job, Limits
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.verify.code import Where, check_rules, code_of, is_clean

PARTS = ("passed", "passed_share", "compiles", "run_time", "peak_memory", "linter")
_MEASURED = ("run_time", "peak_memory")

Row = Mapping[str, object]


class CodeReward(TextReward):
    """Reward of a program that runs in the sandbox; by default only the part ``passed`` counts.

    ``R = sum_k w_k R_k`` over

    - ``passed``: 1 if every test passed; it alone decides what is correct.
    - ``passed_share``: the share of passed tests.
    - ``compiles``: 1 if the program has the syntax of Python.
    - ``run_time`` of the slowest run in seconds, ``peak_memory`` of the largest run in MiB; only
      with ``measure``.
    - ``linter``: 1 if the linter has no complaints; only with ``lint``.

    A program that did not pass gets the limits as ``run_time`` and ``peak_memory``, and 0 as
    ``linter``, so that failing early never increases the reward. A response without a program is
    such a failure, with 0 as ``passed_share`` and ``compiles``. Faults of a program never make its
    row invalid; failures of the machine stop the run. Each distinct job of a batch runs once.

    A subclass reads the tests of a row (:meth:`tests_of`), creates jobs from a program and its
    tests (:meth:`jobs`), and decides which tests passed (:meth:`verdicts`).

    Reads and writes the keys of :class:`rlcomp.interfaces.reward.TextReward`. Also records
    ``sandbox/strict`` (1: tier ``strict``, 0: another tier, with 1 under its name:
    ``sandbox/bwrap``, ``sandbox/portable``, ``sandbox/remote``) and ``sandbox/jobs`` (distinct jobs
    of a batch).

    Class attributes:
        job_kind: kind of the jobs of :meth:`jobs`, so that an unsuitable sandbox is refused when
            the reward is made; None if only the first job shows it.

    Args:
        sandbox: runs the programs.
        where: the program is the only ``block`` between fences, or the ``whole`` response.
        timeout: limit of a run, in seconds; of the wall clock and of the CPU.
        memory_mib: limit of a run, in MiB of address space.
        weights: weights of the parts; a part that is left out has weight 0. None: ``passed`` has
            weight 1.
        measure: add ``run_time`` and ``peak_memory``; two runs of the same config then differ.
        lint: ruff's rules for the part ``linter``, such as ``[E, F]``; null: no such part.

    Raises:
        ConfigError: this machine has no sandbox of the required tier, a server cannot run such
            jobs, a weight names a missing part, or ruff does not know a rule.
        MissingExtra: ``lint`` without ruff installed (extra ``verify``).
    """

    job_kind: ClassVar[type[Job] | None] = None
    correct_by = "passed"
    column_remedy = "write it into the task's data, or name another one in the reward's config"

    def __init__(
        self,
        *,
        sandbox: ProgramRunner,
        where: Where,
        timeout: PositiveFloat,
        memory_mib: PositiveInt,
        weights: Mapping[str, float] | None,
        measure: bool,
        lint: Sequence[str] | None,
    ) -> None:
        super().__init__()
        self.sandbox = sandbox
        self.where = where
        self.limits = Limits(wall=timeout, cpu=timeout, memory=memory_mib * MEBIBYTE)
        self.lint = lint
        self.measure = measure
        lacking = {} if measure else dict.fromkeys(_MEASURED, "measure=true")
        lacking |= {} if lint is not None else {"linter": "lint=[E,F], or other rules of ruff's"}
        self.weights = _weights(type(self).__name__, weights or {"passed": 1.0}, lacking)
        if lint is not None:
            check_rules(lint)
        sandbox.check(self.job_kind, measured=measure)  # here, before any expensive work

    def tests_of(self, row: Row) -> Any:  # noqa: ANN401
        """Read the tests of a row from its columns.

        Raises:
            DataError: the tests are missing, or cannot be read.
        """
        raise NotImplementedError

    def jobs(self, code: str, tests: Any) -> Sequence[Job]:  # noqa: ANN401
        """Return the jobs for a program and its tests."""
        raise NotImplementedError

    def verdicts(self, tests: Any, outcomes: Sequence[Outcome]) -> list[bool]:  # noqa: ANN401
        """Decide which of the tests passed, from the outcomes of their jobs."""
        raise NotImplementedError

    def score_row(self, row: Row) -> Score:
        """Return the parts of one row's score."""
        return self.score_rows([row], [0])[0]

    def score_rows(self, rows: Sequence[Row], numbers: Sequence[int]) -> list[Score]:
        """Return the parts of each row's score; all programs run in one batch."""
        codes = [code_of(str(row["response"]), self.where) for row in rows]
        tests, jobs = [], []
        for code, number, row in zip(codes, numbers, rows, strict=True):
            with row_note(number, row):
                tests.append(self.tests_of(row))
                jobs.append([] if code is None else [*self.jobs(code, tests[-1])])
        queue = [job for jobs_of_row in jobs for job in jobs_of_row]
        outcomes = iter(self.sandbox.map(queue))
        record("sandbox/strict", float(self.sandbox.tier == "strict"))
        if self.sandbox.tier != "strict":
            record(f"sandbox/{self.sandbox.tier}", 1.0)
        record("sandbox/jobs", len({*queue}))
        runs = [[next(outcomes) for _ in jobs_of_row] for jobs_of_row in jobs]
        parts = [self._row_parts(*row) for row in zip(tests, runs, strict=True)]
        return [*self._add_linter(codes, parts)]

    def _row_parts(self, tests: Any, runs: Sequence[Outcome]) -> dict[str, float]:  # noqa: ANN401
        passes = self.verdicts(tests, runs) if runs else [False]
        passed = all(passes) and all(run.status == "passed" for run in runs)
        parts = {
            "passed": float(passed),
            "passed_share": sum(passes) / len(passes),
            "compiles": float(bool(runs) and all(run.compiles for run in runs)),
        }
        if not self.measure:
            return parts
        seconds, memory = self.limits.wall, self.limits.memory
        if passed:
            seconds = max(run.wall for run in runs)
            memory = max(run.peak_memory for run in runs)
        return {**parts, "run_time": seconds, "peak_memory": memory / MEBIBYTE}

    def _add_linter(
        self, codes: Sequence[str | None], parts: Sequence[dict[str, float]]
    ) -> Sequence[dict[str, float]]:
        """Return the parts of each row with ``linter``; each distinct program is linted once."""
        if self.lint is None:
            return parts
        rows = [*zip(codes, parts, strict=True)]
        passed = {code for code, row_parts in rows if code and row_parts["passed"]}
        clean = {code for code in passed if is_clean(code, self.lint)}
        return [
            {**row_parts, "linter": float(bool(row_parts["passed"]) and code in clean)}
            for code, row_parts in rows
        ]


def column_names(*columns: str | None) -> frozenset[str]:
    """Return the names of the columns that a reward needs, without None and the texts of a row."""
    return frozenset(name for name in columns if name is not None) - {*TextReward.reads}


def _weights(
    owner: str, weights: Mapping[str, float], lacking: Mapping[str, str]
) -> dict[str, float]:
    """Return the weights of the existing parts; refuse weights of missing ones with a remedy."""
    for name, weight in weights.items():
        if name not in PARTS:
            raise ConfigError(f"{owner}: weights names {name!r}{nearest(name, PARTS)}")
        if weight and name in lacking:
            raise ConfigError(
                f"{owner}: weights.{name} is {weight:g}, but there is no such part: set "
                f"{lacking[name]}"
            )
    return {name: weights.get(name, 0.0) for name in PARTS if name not in lacking}
