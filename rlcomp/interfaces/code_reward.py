"""Base class of rewards that run the response's program in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rlcomp.arguments import PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError, nearest
from rlcomp.interfaces.reward import TextReward, row_named
from rlcomp.interfaces.scores import Score
from rlcomp.metrics import record
from rlcomp.sandbox.job import MEBIBYTE, Job, Limits
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.verify.code import Where, code_of
from rlcomp.verify.lint import check_rules, is_clean

PARTS = ("passed", "passed_share", "compiles", "run_time", "peak_memory", "linter")
_MEASURED = ("run_time", "peak_memory")

Row = Mapping[str, object]


class CodeReward(TextReward):
    """A reward whose program runs in the sandbox; named parts, of which ``passed`` alone weighs 1.

    ``R = sum_k w_k R_k`` over

    - ``passed``: 1 if every test passed. It alone says what is correct.
    - ``passed_share``: the share of the tests that did.
    - ``compiles``: 1 if the program is Python.
    - ``run_time`` in seconds, ``peak_memory`` in MiB: of its slowest and its largest run; only with
      ``measure``.
    - ``linter``: 1 if the linter finds nothing; only with ``lint``.

    Of a program that did not pass, ``run_time`` and ``peak_memory`` are their limits and ``linter``
    is 0: no price on them pays for giving up. Whatever a program does, its row is valid; what is
    the machine's doing stops the run. A subclass reads the tests of a row (:meth:`tests_of`), makes
    jobs of a program and its tests (:meth:`jobs`), and tells which tests passed
    (:meth:`verdicts`). Each distinct job of a batch runs once.

    Reads and writes what :class:`rlcomp.interfaces.reward.TextReward` does. Records beside its
    metrics ``sandbox/strict`` (1: tier ``strict``, 0: another one, and then 1 under the name of
    that: ``sandbox/bwrap``, ``sandbox/portable``, ``sandbox/remote``) and ``sandbox/jobs``
    (distinct jobs of a batch).

    Class attributes:
        job_kind: of what :meth:`jobs` gives, so that a sandbox that cannot run it says so when the
            reward is made; None: told by the first job.

    Args:
        sandbox: runs the programs.
        where: the program is the one ``block`` between fences, or the ``whole`` response.
        timeout: limit of a run, in seconds; of the wall clock and of the CPU.
        memory_mib: limit of a run, in MiB of address space.
        weights: of the parts; those that are not named weigh 0. None: ``passed`` alone, 1.
        measure: whether there are ``run_time`` and ``peak_memory``, by which two runs of the same
            config differ.
        lint: ruff's rules for the part ``linter``, such as ``[E, F]``; null: no such part.

    Raises:
        ConfigError: this machine has no sandbox of the tier that is asked for, a server cannot run
            such jobs, a weight is that of no part there is, or ruff does not know a rule.
        MissingExtra: ``lint``, and ruff is not installed (extra ``verify``).
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
        sandbox.check(self.job_kind, measured=measure)  # here, before anything expensive

    def tests_of(self, row: Row) -> Any:  # noqa: ANN401
        """The tests of a row, read from its columns.

        Raises:
            DataError: they are missing, or cannot be read.
        """
        raise NotImplementedError

    def jobs(self, code: str, tests: Any) -> Sequence[Job]:  # noqa: ANN401
        """What to run for a program and its tests."""
        raise NotImplementedError

    def verdicts(self, tests: Any, outcomes: Sequence[Outcome]) -> list[bool]:  # noqa: ANN401
        """Which of the tests passed, by the outcomes of their jobs."""
        raise NotImplementedError

    def score_row(self, row: Row) -> Score:
        """The parts of one row."""
        return self.score_rows([row], [0])[0]

    def score_rows(self, rows: Sequence[Row], numbers: Sequence[int]) -> list[Score]:
        """The parts of each row, of programs that all run in one batch."""
        codes = [code_of(str(row["response"]), self.where) for row in rows]
        tests, jobs = [], []
        for code, number, row in zip(codes, numbers, rows, strict=True):
            with row_named(number, row):
                tests.append(self.tests_of(row))
                jobs.append([] if code is None else [*self.jobs(code, tests[-1])])
        asked = [job for some in jobs for job in some]
        outcomes = iter(self.sandbox.map(asked))
        record("sandbox/strict", float(self.sandbox.tier == "strict"))
        if self.sandbox.tier != "strict":
            record(f"sandbox/{self.sandbox.tier}", 1.0)
        record("sandbox/jobs", len({*asked}))
        ran = [[next(outcomes) for _ in some] for some in jobs]
        parts = [self._scored(*each) for each in zip(tests, ran, strict=True)]
        return [*self._linted(codes, parts)]

    def _scored(self, tests: Any, ran: Sequence[Outcome]) -> dict[str, float]:  # noqa: ANN401
        passes = self.verdicts(tests, ran) if ran else [False]
        passed = all(passes) and all(each.status == "passed" for each in ran)
        parts = {
            "passed": float(passed),
            "passed_share": sum(passes) / len(passes),
            "compiles": float(bool(ran) and all(each.compiles for each in ran)),
        }
        if not self.measure:
            return parts
        seconds, memory = self.limits.wall, self.limits.memory
        if passed:
            seconds = max(each.wall for each in ran)
            memory = max(each.peak_memory for each in ran)
        return {**parts, "run_time": seconds, "peak_memory": memory / MEBIBYTE}

    def _linted(
        self, codes: Sequence[str | None], parts: Sequence[dict[str, float]]
    ) -> Sequence[dict[str, float]]:
        """The parts, with the linter's verdict on each distinct program that passed."""
        if self.lint is None:
            return parts
        passed = {code for code, own in zip(codes, parts, strict=True) if code and own["passed"]}
        clean = {code for code in passed if is_clean(code, self.lint)}
        return [
            {**own, "linter": float(bool(own["passed"]) and code in clean)}
            for code, own in zip(codes, parts, strict=True)
        ]


def named(*columns: str | None) -> frozenset[str]:
    """Those of some columns that a reward is told to read; the prompt every example has."""
    return frozenset(name for name in columns if name is not None) - {*TextReward.reads}


def _weights(
    owner: str, given: Mapping[str, float], lacking: Mapping[str, str]
) -> dict[str, float]:
    """The weights of the parts there are; of those that lack, what to set is told."""
    for name, weight in given.items():
        if name not in PARTS:
            raise ConfigError(f"{owner}: weights names {name!r}{nearest(name, PARTS)}")
        if weight and name in lacking:
            raise ConfigError(
                f"{owner}: weights.{name} is {weight:g}, but there is no such part: set "
                f"{lacking[name]}"
            )
    return {name: given.get(name, 0.0) for name in PARTS if name not in lacking}
