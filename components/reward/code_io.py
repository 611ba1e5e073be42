"""Rewards of code by pairs of input and output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from rlcomp.arguments import NonEmptyText, NonNegativeFloat, PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.code_reward import CodeReward, column_names
from rlcomp.sandbox.job import CallsJob, StdioJob
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.plain_data import encode
from rlcomp.sandbox.program_runner import ProgramRunner
from rlcomp.verify.answers import column
from rlcomp.verify.code import same_output, same_value


class _Calls(NamedTuple):
    """Inputs for the sandbox, expected values, and the function's name, empty for an expression."""

    inputs: tuple[str, ...]
    outputs: list[object]
    entry_point: str


class CodeCalls(CodeReward):
    """Reward 1 if the response's function or expression is right at every input, else 0.

    ``passed = prod_i [f(x_i) = y_i]``. All inputs of a program go into one job. The expected values
    never enter the sandbox. :func:`rlcomp.verify.code.same_value` compares the returned values, so
    that lists and tuples are the same.

    Reads, writes, records and named parts: see :class:`rlcomp.interfaces.code_reward.CodeReward`.

    Args:
        inputs: column: a list of the arguments of each call, ``[[1, 2], [3, 4]]``.
        outputs: column: a list with the value of each call.
        entry_point: column that names the function; null: the program is an expression.
        names: variables of an expression, in the order of the arguments; null: the program is a
            function.
        absolute: largest difference of equal numbers.
        relative: the same as a share of the larger number.
        sandbox: the sandbox that runs the programs.
        where: place of the program: the only ``block`` between fences, or the ``whole`` response.
        timeout: time limit of all calls of a program together, in seconds.
        memory_mib: memory limit of a program, in MiB.
        weights: weights of the parts; a part that is left out has weight 0. None: ``passed`` has
            weight 1.
        measure: whether ``run_time`` and ``peak_memory`` are parts; they make runs differ.
        lint: ruff's rules for the part ``linter``; null: no such part.

    Raises:
        ConfigError: both or neither of ``entry_point`` and ``names``; or as in ``CodeReward``.
        DataError: a column is missing, or is not a list as above.
        MissingExtra: ``lint``, and ruff is not installed (extra ``verify``).
    """

    name = "code_calls"
    job_kind = CallsJob

    def __init__(
        self,
        *,
        sandbox: ProgramRunner,
        inputs: NonEmptyText = "inputs",
        outputs: NonEmptyText = "outputs",
        entry_point: NonEmptyText | None = "entry_point",
        names: list[str] | None = None,
        absolute: NonNegativeFloat = 1e-9,
        relative: NonNegativeFloat = 1e-9,
        where: Literal["block", "whole"] = "block",
        timeout: PositiveFloat = 5.0,
        memory_mib: PositiveInt = 512,
        weights: dict[str, float] | None = None,
        measure: bool = False,
        lint: Sequence[str] | None = None,
    ) -> None:
        if (entry_point is None) == (not names):
            raise ConfigError(
                f"CodeCalls: entry_point is {entry_point!r} and names is {names!r}: set one of "
                "them, entry_point for a function or names for an expression, the other one to null"
            )
        super().__init__(
            sandbox=sandbox,
            where=where,
            timeout=timeout,
            memory_mib=memory_mib,
            weights=weights,
            measure=measure,
            lint=lint,
        )
        self.inputs = inputs
        self.outputs = outputs
        self.entry_point = entry_point
        self.names = tuple(names or ())
        self.absolute = absolute
        self.relative = relative

    @property
    def needed_columns(self) -> frozenset[str]:
        """Return the columns of inputs, outputs and the function's name."""
        return column_names(self.inputs, self.outputs, self.entry_point)

    def tests_of(self, row: Mapping[str, object]) -> _Calls:
        """Return the pairs of a row."""
        inputs, outputs = (
            column(row, name, "reward=code_calls") for name in (self.inputs, self.outputs)
        )
        entry = column(row, self.entry_point, "reward=code_calls") if self.entry_point else ""
        if not isinstance(inputs, list) or not all(isinstance(each, list) for each in inputs):
            raise DataError(
                f"the column {self.inputs!r} is {inputs!r:.80}: must be a list of the arguments of "
                "each call, such as [[1, 2], [3, 4]]"
            )
        if not isinstance(outputs, list) or len(outputs) != len(inputs) or not outputs:
            raise DataError(
                f"the column {self.outputs!r} is {outputs!r:.80}: must be a list with a value for "
                f"each of the {len(inputs)} calls, and at least one"
            )
        return _Calls(tuple(encode(tuple(each)) for each in inputs), outputs, str(entry))

    def jobs(self, code: str, tests: _Calls) -> list[CallsJob]:
        """Return one job with all inputs."""
        return [CallsJob(code, tests.inputs, tests.entry_point, self.names, self.limits)]

    def verdicts(self, tests: _Calls, outcomes: Sequence[Outcome]) -> list[bool]:
        """Return for each call whether it gave the expected value; False without an answer."""
        (outcome,) = outcomes
        calls = [*outcome.calls, *[None] * (len(tests.outputs) - len(outcome.calls))]
        return [
            call is not None
            and call.returned
            and same_value(call.value, value, absolute=self.absolute, relative=self.relative)
            for call, value in zip(calls, tests.outputs, strict=True)
        ]


Pairs = list[tuple[str, str]]


class CodeStdio(CodeReward):
    """Reward 1 if the response's program writes the right output for every input, else 0.

    Each input has its own run, which must end normally. Expected outputs never enter the sandbox.
    :func:`rlcomp.verify.code.same_output` compares outputs by lines and ignores the width of white
    space and empty lines at both ends.

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
        weights: weights of the parts; a part that is left out has weight 0. None: ``passed`` has
            weight 1.
        measure: whether ``run_time`` and ``peak_memory`` are parts; they make runs differ.
        lint: ruff's rules for the part ``linter``; null: no such part.

    Raises:
        ConfigError: as in ``CodeReward``.
        DataError: the column is missing, or is not a list as above.
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
        """Return the column of the pairs."""
        return column_names(self.pairs)

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
        return [StdioJob(code, text, self.limits) for text, _ in tests]

    def verdicts(self, tests: Pairs, outcomes: Sequence[Outcome]) -> list[bool]:
        """Return for each run whether it ended normally and wrote the expected output."""
        return [
            outcome.status == "passed"
            and same_output(outcome.stdout, text, absolute=self.absolute, relative=self.relative)
            for outcome, (_, text) in zip(outcomes, tests, strict=True)
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
    return pairs if all(isinstance(text, str) for pair in pairs for text in pair) else None
