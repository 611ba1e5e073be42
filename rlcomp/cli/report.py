"""``rlcomp-report``: offline comparison of sweeps and runs. Never imports torch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from rlcomp.cli.command_arguments import Parser
from rlcomp.cli.error_handler import run_program
from rlcomp.cli.escape import printable
from rlcomp.errors import ConfigError, ConfigErrors, DataError, UserError, require
from rlcomp.report.groups import Group, find_baseline, group_runs
from rlcomp.report.runs import Run, find_runs

if TYPE_CHECKING:
    from rlcomp.report.page import Report
    from rlcomp.report.tables import MetricResult

_NEEDED = ("scipy", "jinja2")
# Largest number of sentences on the terminal; the page has all.
_MAX_SENTENCES = 10


def main() -> None:
    """Compare runs and sweeps: one HTML page and two CSV files; for a single run, its rollouts."""
    run_program(_app)


def _app() -> None:
    parser = Parser(prog="rlcomp-report", description=main.__doc__, examples={"RUNS": "runs/sweep"})
    parser.add_argument("runs", nargs="+", metavar="RUNS", help="runs, sweeps, or folders of them")
    parser.add_argument("--out", type=Path, help="where to write (default: the first of RUNS)")
    parser.add_argument("--baseline", help="the group to compare with, e.g. recipe=grpo")
    parser.add_argument("--metrics", default="", help="names, separated by commas")
    parser.add_argument(
        "--along",
        default="",
        metavar="SETTING",
        help="groups that differ in it alone make one front, e.g. objectives.aggregator.weights",
    )
    options = parser.parse()
    wanted = [name.strip() for name in options.metrics.split(",") if name.strip()]
    for line in report(options.runs, options.out, options.baseline, wanted, options.along):
        print(printable(line))


def report(
    paths: list[str], out: Path | None, baseline: str | None, wanted: list[str], along: str = ""
) -> list[str]:
    """Read and compare runs, and write the report.

    Args:
        paths: runs, sweeps, folders of them or patterns.
        out: the directory of the report; by default the first of the paths.
        baseline: name or settings of the group to compare with; by default the first group.
        wanted: metrics; if empty, the usual ones.
        along: a setting; groups that differ in nothing else make one front.

    Returns:
        Lines for the user.

    Raises:
        UserError: an argument is wrong, or the report cannot be written.
    """
    if out is not None and out.suffix.lower() in (".html", ".csv") and not out.is_dir():
        raise UserError(f"--out {out}: it names the folder that is written into, not a file")
    for module in _NEEDED:
        require(module, "report")
    from rlcomp.report.fronts import compute_fronts
    from rlcomp.report.page import Report
    from rlcomp.report.tables import results

    runs = find_runs(paths)
    groups = group_runs(runs)
    against, metrics = _choose(runs, groups, baseline, wanted)
    rows = results(groups, metrics, against) if against else []
    fronts = compute_fronts(groups, along)
    folder = out or (Path(paths[0]) if Path(paths[0]).is_dir() else Path())
    _write(folder, Report(", ".join(paths), runs, groups, against, metrics, rows, fronts))
    sentences = _sentences(groups, rows, against) if against else []
    finished = sum(run.state == "finished" for run in runs)
    count = f"{len(runs)} runs in {len(groups)} groups, {finished} finished"
    return [count, *_faults(runs), *sentences, f"report: {folder / 'report.html'}"]


def _write(folder: Path, report: Report) -> None:
    """Write the page and its tables.

    Raises:
        DataError: the folder cannot be written.
    """
    from rlcomp.report.fronts import write_fronts
    from rlcomp.report.page import write_page
    from rlcomp.report.tables import write_results, write_runs

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_results(folder / "report.csv", report.results)
        write_runs(folder / "runs.csv", report.runs, report.groups, report.metrics)
        if report.fronts is not None:
            write_fronts(folder / "fronts.csv", report.fronts)
        write_page(folder / "report.html", report)
    except OSError as error:
        raise DataError(
            f"the report cannot be written: {error}; choose a directory with --out"
        ) from error


def _choose(
    runs: list[Run], groups: list[Group], baseline: str | None, wanted: list[str]
) -> tuple[Group | None, list[str]]:
    """Return the group to compare with, and the metrics.

    Raises:
        ConfigErrors: one of them is invalid.
    """
    from rlcomp.report.tables import chosen_metrics

    faults, against, metrics = list[str](), None, list[str]()
    try:
        against = find_baseline(groups, baseline) if groups else None
    except ConfigError as error:
        faults.append(str(error))
    try:
        metrics = chosen_metrics(runs, wanted)
    except ConfigError as error:
        faults.append(str(error))
    if faults:
        raise ConfigErrors(faults)
    return against, metrics


def _sentences(groups: list[Group], rows: list[MetricResult], against: Group) -> list[str]:
    """Return the page's first sentences: results by the headline metric."""
    from rlcomp.report.findings import headline_metric, write_verdict_sentences

    metric = headline_metric(rows)
    if metric is None:
        return []
    sentences = [
        " ".join(verdict.sentence.split())
        for verdict in write_verdict_sentences(groups, rows, against, metric)
    ]
    name = " ".join(metric.split())  # a name may hold line breaks
    heading = [f"{name}, last value, paired by seed:"] if len(groups) > 1 else []
    more = (
        [f"… and {len(sentences) - _MAX_SENTENCES} more"] if len(sentences) > _MAX_SENTENCES else []
    )
    return [*heading, *sentences[:_MAX_SENTENCES], *more]


def report_files(directory: Path) -> list[Path]:
    """Draw the curve, the front and the report of a finished run; return their paths.

    There is no report if its requirements (extra: ``report``) are not installed.
    """
    from rlcomp.report.summary import pictures

    paths = pictures(directory)
    if all(importlib.util.find_spec(module) for module in _NEEDED):
        report([str(directory)], None, None, [])
        paths.append(directory / "report.html")
    return paths


def _faults(runs: list[Run]) -> list[str]:
    unsound = (run for run in runs if run.state not in ("finished", "repeated"))
    return [f"{run.directory}: {run.state} {run.error}".rstrip() for run in unsound]


if __name__ == "__main__":
    main()
