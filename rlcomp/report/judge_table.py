"""Report on a pairwise judge, as tables and as JSON."""

from __future__ import annotations

import math

from rich import box
from rich.table import Table

from rlcomp.report.judge import Interval, JudgeReport


def judge_tables(report: JudgeReport) -> list[Table | str]:
    """Return the agreement, the biases, and the biases that these pairs could not show."""
    table = Table(title=f"{report.pairs} pairs, each in both orders", title_justify="left")
    table.box = box.SIMPLE_HEAD
    for column in ("", "value", "95 %", "without a fault"):
        table.add_column(column, overflow="fold")
    table.add_row("agreement, of single verdicts", *_cells(report.agreement), "1 (a coin: 0.50)")
    table.add_row("agreement, of both orders' mean", *_cells(report.label_agreement), "1")
    table.add_row("verdict changes with the order", f"{report.order_flips:.2f}", "", "0")
    table.add_row("pairs without a verdict", f"{report.invalid:.2f}", "", "0")
    for name, bias in report.biases.items():
        table.add_row(f"bias of {name}, log-odds", *_cells(bias), "0")
    lines = [f"not shown: {reason}" for reason in report.unseen]
    if not report.agreement.low > 0.5:
        lines.append(
            "not shown: that the judge is better than a coin (the interval of single verdicts "
            "holds 0.50, or lies below it)"
        )
    return [table, *lines]


def judge_as_json(report: JudgeReport) -> dict[str, object]:
    """Return the whole report in JSON types; null for a missing number."""
    return {
        "pairs": report.pairs,
        "invalid": report.invalid,
        "agreement": _numbers(report.agreement),
        "label_agreement": _numbers(report.label_agreement),
        "order_flips": report.order_flips,
        "biases": {name: _numbers(bias) for name, bias in report.biases.items()},
        "unseen": [*report.unseen],
    }


def _cells(one: Interval) -> tuple[str, str]:
    return f"{one.value:.2f}", f"[{one.low:.2f}, {one.high:.2f}]"


def _numbers(one: Interval) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in one._asdict().items()}
