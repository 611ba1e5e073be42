"""Reward of programs by pairs of standard input and output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rlcomp.arguments import NonEmptyText, NonNegativeFloat, PositiveFloat, PositiveInt
from rlcomp.errors import DataError
from rlcomp.interfaces.code_reward import CodeReward, named
from rlcomp.sandbox.job import StdioJob
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.verify.answers import column
from rlcomp.verify.code import same_output

Pairs = list[tuple[str, str]]


class CodeStdio(CodeReward):
    """Reward 1 if the response's program writes the right output for every input, else 0.

    Each input has its own run, which must end normally. Expected outputs never enter the sandbox.
    :func:`rlcomp.verify.code.same_output` compares outputs by lines and ignores white space.

    Reads, writes, records and named parts: see :class:`rlcomp.interfaces.code_reward.CodeReward`.

    Args:
        pairs: column: a list of ``{"input": text, "output": text}``, or ``{"inputs": [texts],
            "outputs": [texts]}`` like APPS.
        absolute: largest difference of equal numbers in the output; 0: texts are compared.
        relative: the same as a share of the larger number.
        sandbox: the sandbox that runs the programs.
        where: place of the program: the only ``block`` between fences, or the ``whole`` response.
        timeout: time limit of a run, in seconds.
        memory_mib: memory limit of a run, in MiB.
        weights: weights of the parts, 0 if not named.
        measure: whether ``run_time`` and ``peak_memory`` are parts; they make runs differ.
        lint: ruff's rules for the part ``linter``; null: no such part.

    Raises:
        ConfigError: as in ``CodeReward``.
        DataError: the column is missing, or is no list as above.
        MissingExtra: ``lint``, and ruff is not installed (extra ``verify``).

    Source:
        Hendrycks et al. 2021 (APPS), arXiv:2105.09938.
    """

    name = "code_stdio"
    job_kind = StdioJob

    def __init__(
        self,
        *,
        sandbox: ProgramRunner,
        pairs: NonEmptyText = "input_output",
        absolute: NonNegativeFloat = 0.0,
        relative: NonNegativeFloat = 0.0,
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
        self.pairs = pairs
        self.absolute = absolute
        self.relative = relative

    @property
    def needed_columns(self) -> frozenset[str]:
        """The column of the pairs."""
        return named(self.pairs)

    def tests_of(self, row: Mapping[str, object]) -> Pairs:
        """Return the pairs of a row."""
        pairs = _pairs(value := column(row, self.pairs, "reward=code_stdio"))
        if not pairs:
            raise DataError(
                f"the column {self.pairs!r} is {value!r:.80}: must be a list of "
                '{"input": text, "output": text}, or {"inputs": [texts], "outputs": [texts]}, '
                "with at least one pair"
            )
        return pairs

    def jobs(self, code: str, tests: Pairs) -> list[StdioJob]:
        """Return one job for each input."""
        return [StdioJob(code, given, self.limits) for given, _ in tests]

    def verdicts(self, tests: Pairs, outcomes: Sequence[Outcome]) -> list[bool]:
        """Return for each run whether it ended normally and wrote the expected output."""
        return [
            outcome.status == "passed"
            and same_output(outcome.stdout, wanted, absolute=self.absolute, relative=self.relative)
            for outcome, (_, wanted) in zip(outcomes, tests, strict=True)
        ]


def _pairs(value: object) -> Pairs | None:
    """Return the pairs of a column; None if it holds something else."""
    if isinstance(value, dict) and {*value} >= {"inputs", "outputs"}:
        inputs, outputs = value["inputs"], value["outputs"]
        if not isinstance(inputs, list) or not isinstance(outputs, list):
            return None
        if len(inputs) != len(outputs):
            return None
        pairs = [*zip(inputs, outputs, strict=True)]
    elif isinstance(value, list) and all(isinstance(each, dict) for each in value):
        pairs = [(each.get("input"), each.get("output")) for each in value]
    else:
        return None
    texts = all(isinstance(text, str) for pair in pairs for text in pair)
    return pairs if texts else None
