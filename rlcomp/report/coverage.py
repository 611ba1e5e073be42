"""Comparison of two runs by each problem's counts from ``evaluator=coverage``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from rlcomp.arguments import NonNegativeInt, problem
from rlcomp.errors import DataError
from rlcomp.files.json_lines import is_count, read_lines
from rlcomp.files.run_record import SAMPLES
from rlcomp.functional.coverage import (
    CoveragePoint,
    Crossing,
    coverage_curve,
    coverage_difference,
    crossings,
)

_MAX_ANSWERS = 100_000  # binomials of more answers take minutes
_KINDS: dict[str, Any] = {
    "problem": str,
    "n": NonNegativeInt,
    "c": NonNegativeInt,
    "d": NonNegativeInt | None,
    "level": str | None,
}
_SEED = 0


class ProblemCounts(NamedTuple):
    """Counts of one problem.

    Attributes:
        n: number of judged samples.
        c: number of samples with a right answer.
        d: number of samples with a right answer and right reasons; None if reasons were not judged.
        level: level of the problem; None without one.
    """

    n: int
    c: int
    d: int | None
    level: str | None


@dataclass(frozen=True)
class CoverageComparison:
    """pass@k (or CoT-Pass@k) of two runs on the same problems.

    Attributes:
        problems: number of common problems.
        base, trained: the curves.
        difference: trained minus base, paired.
        crossings: crossings of the two curves.
    """

    problems: int
    base: list[CoveragePoint]
    trained: list[CoveragePoint]
    difference: list[CoveragePoint]
    crossings: list[Crossing]


def read_counts(
    directory: Path, *, evaluator: str = "coverage", total: int | None = None
) -> dict[str, ProblemCounts]:
    """Read each problem's counts from one evaluation of a run.

    Args:
        directory: directory of the run.
        evaluator: name of the evaluator.
        total: step of the run; None: the last evaluation.

    Raises:
        DataError: there is no such evaluation, or a row of the evaluator is malformed.
    """
    file = directory / SAMPLES
    rows = [row for row in read_lines(file) if row.get("evaluator") == evaluator]
    for row in rows:
        if fault := _fault(row):
            raise DataError(f"{file}, counts of {row.get('problem')!r:.40}: {fault}")
    steps = sorted({row["total"] for row in rows})
    step = steps[-1] if steps and total is None else total
    if step not in steps:
        raise DataError(
            f"{file} has no counts of the evaluator {evaluator!r}"
            + (f" after step {total}, only after {steps}" if steps else "; check that it ran")
        )
    return {
        row["problem"]: ProblemCounts(row["n"], row["c"], row.get("d"), row.get("level"))
        for row in rows
        if row["total"] == step
    }


def _fault(row: Mapping[str, Any]) -> str | None:
    """Return the fault of a row; None if it has none."""
    if not is_count(row.get("total")):
        return f"'total' is {row.get('total')!r:.40}: must be a number of steps"
    for name, kind in _KINDS.items():
        if fault := problem(kind, row.get(name)):
            return f"'{name}' is {row.get(name)!r:.40}: {fault}"
    if not (row.get("d") or 0) <= row["c"] <= row["n"] <= _MAX_ANSWERS:
        return f"must be d <= c <= n <= {_MAX_ANSWERS}"
    return None


def compare(
    base: Mapping[str, ProblemCounts],
    trained: Mapping[str, ProblemCounts],
    *,
    level: str | None = None,
    right: Literal["answer", "reasoning"] = "answer",
    interval: float = 0.95,
) -> CoverageComparison:
    """Compare two evaluations at k = 1, 2, 4, ... and the largest k that both have samples for.

    Args:
        base: counts of one run, for example before training.
        trained: counts of the other run.
        level: only problems of this level, as given by ``base``; None: all problems.
        right: pass@k of right answers, or of right answers with right reasons (CoT-Pass@k).
        interval: confidence level of the intervals.

    Raises:
        DataError: the evaluations have no problem in common, or the reasoning was not judged.
    """
    names = [name for name in base if name in trained and level in (None, base[name].level)]
    if not names:
        of_level = "" if level is None else f" of level {level!r}"
        raise DataError(
            f"the two evaluations have no problem{of_level} in common: evaluate the same task with "
            "the same seed, split and num_prompts"
        )
    (n, c), (trained_n, trained_c) = (
        _tensors([counts[name] for name in names], right) for counts in (base, trained)
    )
    largest_k = int(min(n.max(), trained_n.max()))
    ks = [*dict.fromkeys([*(2**power for power in range(largest_k.bit_length())), largest_k])]
    difference = coverage_difference((n, c), (trained_n, trained_c), ks, interval, _SEED)
    return CoverageComparison(
        len(names),
        coverage_curve(n, c, ks, interval, _SEED),
        coverage_curve(trained_n, trained_c, ks, interval, _SEED),
        difference,
        crossings(difference),
    )


def _tensors(counts: list[ProblemCounts], right: str) -> tuple[torch.Tensor, torch.Tensor]:
    if right == "reasoning" and any(count.d is None for count in counts):
        raise DataError("the reasoning was not judged: set the evaluator's verifier, reasoning")
    right_counts = [count.c if right == "answer" else count.d for count in counts]
    return torch.tensor([count.n for count in counts]), torch.tensor(right_counts)
