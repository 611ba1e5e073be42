"""Report as one self-contained HTML page."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcomp.errors import require
from rlcomp.files.atomic_write import atomic_write
from rlcomp.report.answers import cut, side_by_side
from rlcomp.report.charts import (
    axes_of,
    charts,
    families_of,
    run_front,
    sort_metrics,
    sweep_front,
)
from rlcomp.report.findings import headline_metric, judge_difference, write_verdict_sentences
from rlcomp.report.fronts import Fronts
from rlcomp.report.groups import Group
from rlcomp.report.rollouts import group_samples
from rlcomp.report.run_files import describe_early_end, read_samples
from rlcomp.report.runs import Run
from rlcomp.report.statistics import format_estimate, format_number
from rlcomp.report.tables import MetricResult, costs, run_origins, runs_with_groups
from rlcomp.trackers.metric_names import better

# Most groups, runs in the table of runs, cells in the table of configs, and metrics in the table of
# results: the page of a large sweep stays below 3 MB. The CSV files are complete.
MAX_GROUPS, MAX_RUNS, MAX_CELLS, MAX_METRICS = 64, 300, 4_000, 24


@dataclass(frozen=True)
class Report:
    """Contents of a page."""

    title: str
    runs: Sequence[Run]
    groups: Sequence[Group]
    baseline: Group | None
    metrics: Sequence[str]
    results: Sequence[MetricResult]
    fronts: Fronts | None = None


def write_page(path: Path, report: Report) -> None:
    """Write the page; all texts from configs and models are escaped."""
    jinja2 = require("jinja2", "report")
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "better": better,
        "cut": cut,
        "difference": functools.partial(format_estimate, sign=True),
        "ended": describe_early_end,
        "estimate": format_estimate,
        "judged": lambda value, metric: judge_difference(value, better(metric)),
        "number": format_number,
    }
    script = (folder / "page.js").read_text(encoding="utf-8")
    page = environment.get_template("page.html.j2").render(
        report=report,
        style=(folder / "page.css").read_text(encoding="utf-8"),
        script=script,
        # The browser runs only this script and no other in the page.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **_comparisons(report),
        **_charts(report),
    )
    with atomic_write(path) as draft:
        draft.write_text(page, encoding="utf-8", errors="replace")


def shown_groups(report: Report) -> list[Group]:
    """Return the first groups, as many as a page can hold; the baseline is always among them."""
    groups = [*report.groups[:MAX_GROUPS]]
    if report.baseline is not None and report.baseline not in groups:
        groups[-1] = report.baseline
    return groups


def _comparisons(report: Report) -> dict[str, Any]:
    """Return the template's variables for the texts and tables."""
    groups, metric, control = shown_groups(report), headline_metric(report.results), report.baseline
    sentences = (
        write_verdict_sentences(groups, report.results, control, metric)
        if metric and control
        else []
    )
    paths = list(groups[0].differences) if groups else []
    # Rollouts are shown, token by token, for a single run only.
    samples = read_samples(report.runs[0].directory) if len(report.runs) == 1 else []
    steps, left_out = group_samples(samples)
    rows, environments = run_origins(report.runs)
    return {
        "groups": groups,
        "several": len(groups) > 1,
        "headline": metric,
        "verdicts": sentences,
        "table_metrics": list(dict.fromkeys(row.metric for row in report.results))[:MAX_METRICS],
        "results": {(row.group, row.metric, row.kind): row for row in report.results},
        "differing_paths": paths[: MAX_CELLS // max(len(groups), 1)],
        "runs_and_groups": runs_with_groups(report.runs, report.groups),
        "max_runs": MAX_RUNS,
        "compared_answers": side_by_side(groups),
        "steps": steps,
        "left_out": left_out,
        "costs": costs(groups),
        "origins": rows,
        "environments": environments,
    }


def _charts(report: Report) -> dict[str, Any]:
    """Return the template's variables for the charts, and the data of the page's script."""
    groups = shown_groups(report)
    metrics = sort_metrics(groups, report.metrics)
    curves, fronts = charts(groups, metrics), _fronts(report)
    axes = axes_of(curves)
    names = [group.name for group in groups]
    return {
        "charts": curves,
        "axes": axes,
        "constant": metrics.constant,
        "fronts": fronts,
        "families": families_of(report.fronts) if report.fronts and len(report.runs) > 1 else [],
        "data": {"groups": names, "axes": axes, "charts": curves, "fronts": fronts},
    }


def _fronts(report: Report) -> list[dict[str, Any]]:
    """Return the Pareto points of one run by step, or of several runs; empty without objectives."""
    if report.fronts is None:
        return []
    if len(report.runs) == 1:
        return run_front(report.runs[0].rows, report.fronts.names)
    return sweep_front(report.fronts)
