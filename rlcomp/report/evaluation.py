"""Evaluations: files of verdicts, their means with intervals, and comparison of models."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch
from rich import box
from rich.table import Table

from rlcomp.errors import DataError
from rlcomp.files.atomic_write import atomic_write
from rlcomp.files.json_lines import json_line, read_lines
from rlcomp.functional.statistics import difference_interval, share_interval
from rlcomp.report.statistics import LEVEL, MeanEstimate, half_width, round_to_interval

# The share of right responses among the judged ones, by decoding and problem. A problem with a
# level (of difficulty) has its share under "decoding, level", too.
Scores = Mapping[str, Mapping[int, float]]
_Interval = Callable[[torch.Tensor, float, torch.Generator], tuple[float, float]]


def read_scores(file: Path, header: Mapping[str, object]) -> Scores | None:
    """Read the scores from a file of verdicts with the same settings; None without a file.

    Raises:
        DataError: the file holds something else, or is incomplete.
    """
    if not file.exists():
        return None
    lines = read_lines(file)
    if not lines or lines[0] != json.loads(json.dumps(header)):
        raise DataError(f"{file} is no evaluation with these settings: name another --out")
    invalid_lines = [number for number, line in enumerate(lines[1:], 2) if not _is_verdict(line)]
    fault = f"line {invalid_lines[0]} of it is no verdict" if invalid_lines else ""
    with file.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        if stream.read() != b"\n":
            fault = fault or "its last line is cut off"
    if fault:
        raise DataError(f"{file} is damaged, {fault}: name another --out")
    return scores(lines[1:])


def _is_verdict(line: Mapping[str, object]) -> bool:
    responses = line.get("responses")
    return (
        type(line.get("problem")) is int
        and isinstance(line.get("decoding"), str)
        and isinstance(line.get("level", ""), str)
        and isinstance(responses, list)
        and all(
            isinstance(response, dict) and response.get("correct", "") in (True, False, None)
            for response in responses
        )
    )


def write_verdicts(
    file: Path, header: Mapping[str, object], verdicts: Iterable[Mapping[str, object]]
) -> Scores:
    """Write verdicts as JSON lines, all or none, after a line with the settings."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as draft, draft.open("w", encoding="utf-8") as stream:
        stream.write(json_line(header))
        for verdict in verdicts:
            stream.write(json_line(verdict))
    return scores(islice(read_lines(file), 1, None))


def scores(verdicts: Iterable[Mapping[str, object]]) -> Scores:
    """Compute each problem's share of right responses among the judged ones.

    Problems without a judged response are left out.

    Examples:
        >>> responses = [{"correct": True}, {"correct": False}, {"correct": None}]
        >>> scores([{"problem": 3, "decoding": "sampled", "responses": responses}])
        {'sampled': {3: 0.5}}
        >>> scores([{"problem": 3, "decoding": "greedy", "level": "hard", "responses": responses}])
        {'greedy': {3: 0.5}, 'greedy, hard': {3: 0.5}}
    """
    shares: dict[str, dict[int, float]] = {}
    for verdict in verdicts:
        responses: list[Mapping[str, object]] = verdict["responses"]  # type: ignore[assignment]
        judged = [
            bool(response["correct"]) for response in responses if response["correct"] is not None
        ]
        decoding, level = str(verdict["decoding"]), verdict.get("level")
        for name in [decoding, *([f"{decoding}, {level}"] if level else [])]:
            by_problem = shares.setdefault(name, {})
            if judged:
                by_problem[int(str(verdict["problem"]))] = sum(judged) / len(judged)
    return dict(sorted(shares.items()))


def mean(values: Sequence[float]) -> MeanEstimate | None:
    """Average over problems; the 95 % interval is :func:`share_interval`'s. None without values."""
    return _estimate(values, share_interval)


def difference(values: Mapping[int, float], baseline: Mapping[int, float]) -> MeanEstimate | None:
    """Average the paired differences over the common problems; None without common ones.

    The 95 % interval is that of :func:`rlcomp.functional.statistics.difference_interval`.

    Examples:
        >>> difference({0: 1.0, 1: 0.5}, {0: 0.0, 1: 0.5, 2: 1.0}).mean
        0.5
    """
    pairs = [values[n] - baseline[n] for n in values if n in baseline]
    return _estimate(pairs, difference_interval)


def _estimate(values: Sequence[float], interval: _Interval) -> MeanEstimate | None:
    if not values:
        return None
    draws = torch.Generator().manual_seed(0)
    low, high = interval(torch.tensor(values, dtype=torch.float64), LEVEL, draws)
    return MeanEstimate(sum(values) / len(values), low, high, len(values))


@dataclass(frozen=True)
class ComparisonRow:
    """Row for one suite and decoding: means, and differences to the first model."""

    suite: str
    decoding: str
    means: dict[str, MeanEstimate | None]
    differences: dict[str, MeanEstimate | None]


def compare(scores_of: Mapping[str, Mapping[str, Scores]]) -> list[ComparisonRow]:
    """Compare models from their scores by suite and model, in the decodings of the first model.

    The first model of a suite is its baseline.
    """
    rows = []
    for suite, models in scores_of.items():
        first, *others = models
        for decoding in models[first]:
            by_model = {model: models[model].get(decoding, {}) for model in models}
            rows.append(
                ComparisonRow(
                    suite,
                    decoding,
                    {model: mean([*values.values()]) for model, values in by_model.items()},
                    {model: difference(by_model[model], by_model[first]) for model in others},
                )
            )
    return rows


def comparison_table(rows: Sequence[ComparisonRow]) -> Table:
    """Return the comparison as a table: ``mean [low, high]`` of ``n`` problems."""
    models, others = [*rows[0].means], [*rows[0].differences]
    table = Table(box=box.SIMPLE_HEAD)
    differences = [f"{other} − {models[0]}" for other in others]
    for column in ("suite", "decoding", "n", *models, *differences):
        table.add_column(column, overflow="fold")
    for row in rows:
        counts = dict.fromkeys(str(value.n if value else 0) for value in row.means.values())
        estimates = [_estimate_cell(value) for value in row.means.values()]
        changes = [_estimate_cell(value, sign=True) for value in row.differences.values()]
        table.add_row(row.suite, row.decoding, ", ".join(counts), *estimates, *changes)
    return table


def _estimate_cell(value: MeanEstimate | None, *, sign: bool = False) -> str:
    if value is None or value.low is None or value.high is None:
        return "none judged"
    half = half_width(value)
    middle, low, high = (
        round_to_interval(number, half, sign=sign) for number in (value.mean, value.low, value.high)
    )
    return f"{middle} [{low}, {high}]"


def summary(rows: Sequence[ComparisonRow]) -> list[dict[str, object]]:
    """Return the comparison in JSON types."""
    return [asdict(row) for row in rows]
