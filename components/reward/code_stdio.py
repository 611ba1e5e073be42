"""Reward of programs by their output: standard input and output in pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rlcomp.arguments import NonEmptyText, NonNegativeFloat, PositiveFloat, PositiveInt
from rlcomp.errors import DataError
from rlcomp.interfaces.code_reward import CodeReward, named
from rlcomp.sandbox.job import StdioJob
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.verify.code import same_output
from rlcomp.verify.columns import column

Pairs = list[tuple[str, str]]


class CodeStdio(CodeReward):
    """1 if the response's program writes the right output for every input, else 0.

    A run of its own for each input, which must end normally. Outputs never enter the sandbox; what
    a program wrote is compared by :func:`rlcomp.verify.code.same_output`: by lines, but for white
    space.

    Reads, writes, records and named parts: see :class:`rlcomp.interfaces.code_reward.CodeReward`.

    Args:
        pairs: column: a list of ``{"input": text, "output": text}``, or ``{"inputs": [texts],
            "outputs": [texts]}``, as APPS has it.
        absolute: by how much numbers in the output may differ; 0: texts are compared.
        relative: or by how much of the larger one.
        sandbox: runs the programs.
        where: the program is the one ``block`` between fences, or the ``whole`` response.
        timeout: limit of a run, in seconds.
        memory_mib: limit of a run, in MiB.
        weights: of the parts; those that are not named weigh 0.
        measure: whether ``run_time`` and ``peak_memory`` are parts: two runs then differ by them.
        lint: ruff's rules for the part ``linter``; null: no such part.

    Raises:
        ConfigError: as in ``CodeReward``.
        DataError: the column is missing, or is nothing of the kind told above.
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
        """The pairs."""
        return named(self.pairs)

    def tests_of(self, row: Mapping[str, object]) -> Pairs:
        """The pairs of a row."""
        found = _pairs(value := column(row, self.pairs, "reward=code_stdio"))
        if not found:
            raise DataError(
                f"the column {self.pairs!r} is {value!r:.80}: must be a list of "
                '{"input": text, "output": text}, or {"inputs": [texts], "outputs": [texts]}, '
                "with at least one pair"
            )
        return found

    def jobs(self, code: str, tests: Pairs) -> list[StdioJob]:
        """One job for each input."""
        return [StdioJob(code, given, self.limits) for given, _ in tests]

    def verdicts(self, tests: Pairs, outcomes: Sequence[Outcome]) -> list[bool]:
        """Which runs ended normally and wrote the expected output."""
        return [
            outcome.status == "passed"
            and same_output(outcome.stdout, wanted, absolute=self.absolute, relative=self.relative)
            for outcome, (_, wanted) in zip(outcomes, tests, strict=True)
        ]


def _pairs(value: object) -> Pairs | None:
    """The pairs of a column; None where it holds something else."""
    if isinstance(value, dict) and {*value} >= {"inputs", "outputs"}:
        inputs, outputs = value["inputs"], value["outputs"]
        if not isinstance(inputs, list) or not isinstance(outputs, list):
            return None
        if len(inputs) != len(outputs):
            return None
        found = [*zip(inputs, outputs, strict=True)]
    elif isinstance(value, list) and all(isinstance(each, dict) for each in value):
        found = [(each.get("input"), each.get("output")) for each in value]
    else:
        return None
    texts = all(isinstance(text, str) for pair in found for text in pair)
    return found if texts else None
