"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlcomp.errors import require
from rlcomp.io.draft import draft_of
from rlcomp.report.ended import ended_words
from rlcomp.report.figures import as_svg, colour_of, curves
from rlcomp.report.front_figures import run_figure, sweep_figure
from rlcomp.report.fronts import Fronts
from rlcomp.report.groups import Group
from rlcomp.report.rollouts import Step, steps_of
from rlcomp.report.runs import Run
from rlcomp.report.samples import read_samples
from rlcomp.report.statistics import Estimate
from rlcomp.report.tables import KINDS, Result, costs, placed


@dataclass(frozen=True)
class Report:
    """What a page is made of."""

    title: str
    runs: Sequence[Run]
    groups: Sequence[Group]
    baseline: Group | None
    metrics: Sequence[str]
    results: Sequence[Result]
    fronts: Fronts | None = None


def write_page(path: Path, report: Report) -> None:
    """Write the page; whatever comes from a config or a model is text, never markup."""
    jinja2 = require("jinja2", "report")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"number": number, "estimate": in_words, "ended": ended_words}
    steps, left_out = rollouts_of(report.runs)
    page = environment.get_template("page.html.j2").render(
        report=report,
        placed=placed(report.runs, report.groups),
        results={(row.group, row.metric, row.kind): row for row in report.results},
        kinds=list(KINDS),
        colours={group.name: colour_of(index) for index, group in enumerate(report.groups)},
        curves={metric: curves(report.groups, metric) for metric in report.metrics},
        front=front_of(report),
        costs=costs(report.groups),
        steps=steps,
        left_out=left_out,
    )
    with draft_of(path) as draft:
        draft.write_text(page, encoding="utf-8", errors="replace")


def front_of(report: Report) -> str:
    """The front as an ``<svg>`` element: of one run its way, of several their ends; or nothing."""
    if report.fronts is None:
        return ""
    if len(report.runs) == 1:
        figure = run_figure(report.runs[0].rows, report.fronts.names)
    else:
        figure = sweep_figure(report.fronts)
    return "" if figure is None else as_svg(figure)


def rollouts_of(runs: Sequence[Run]) -> tuple[list[Step], int]:
    """The answers of a single run; none of several."""
    if len(runs) != 1:
        return [], 0
    return steps_of(read_samples(runs[0].directory))


def number(value: float | None) -> str:
    """A number as a reader wants it.

    Examples:
        >>> number(0.03), number(12345.6), number(None)
        ('0.03', '12,346', '')
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def in_words(value: Estimate | None) -> str:
    """Mean and interval.

    Examples:
        >>> in_words(Estimate(0.5, 0.25, 0.75, 3))
        '0.5 [0.25, 0.75]'
    """
    if value is None:
        return ""
    ends = f" [{number(value.low)}, {number(value.high)}]" if value.low is not None else ""
    return number(value.mean) + ends
