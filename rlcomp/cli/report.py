"""``rlcomp-report``: sweeps and runs compared, offline. Never imports torch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from rlcomp.cli.guard import guard
from rlcomp.cli.parsed import Parser
from rlcomp.cli.printable import printable
from rlcomp.errors import ConfigError, ConfigErrors, DataError, UserError, require
from rlcomp.report.groups import Group, baseline_of, grouped
from rlcomp.report.runs import Run, find_runs

if TYPE_CHECKING:
    from rlcomp.report.tables import Result

_NEEDED = ("scipy", "jinja2")
# Sentences on the terminal; the page has more.
_SAID = 10


def main() -> None:
    """Compare runs and sweeps: one HTML page and two CSV files; for a single run, its rollouts."""
    guard(_app)


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
    given = parser.parse()
    wanted = [name.strip() for name in given.metrics.split(",") if name.strip()]
    for line in report(given.runs, given.out, given.baseline, wanted, given.along):
        print(printable(line))


def report(
    paths: list[str],
    out: Path | None,
    baseline: str | None,
    wanted: list[str],
    along: str = "",
) -> list[str]:
    """Read, compare, write.

    Args:
        paths: runs, sweeps, folders of them or patterns.
        out: the directory written into; the first of the paths if not given.
        baseline: name or settings of the group to compare with; the first group if not given.
        wanted: metrics; the usual ones if none.
        along: a setting; groups that differ in nothing else make one front.

    Returns:
        What to tell the user.
    """
    if out is not None and out.suffix.lower() in (".html", ".csv") and not out.is_dir():
        raise UserError(f"--out {out}: it names the folder that is written into, not a file")
    for module in _NEEDED:
        require(module, "report")
    from rlcomp.report.fronts import fronts_of, write_fronts
    from rlcomp.report.page import Report, write_page
    from rlcomp.report.tables import results, write_results, write_runs

    runs = find_runs(paths)
    groups = grouped(runs)
    against, metrics = _chosen(runs, groups, baseline, wanted)
    rows = results(groups, metrics, against) if against else []
    fronts = fronts_of(groups, along)
    place = out or (Path(paths[0]) if Path(paths[0]).is_dir() else Path())
    try:
        place.mkdir(parents=True, exist_ok=True)
        write_results(place / "report.csv", rows)
        write_runs(place / "runs.csv", runs, groups, metrics)
        if fronts is not None:
            write_fronts(place / "fronts.csv", fronts)
        about = Report(", ".join(paths), runs, groups, against, metrics, rows, fronts)
        write_page(place / "report.html", about)
    except OSError as error:
        raise DataError(
            f"the report cannot be written: {error}; choose a directory with --out"
        ) from error
    said = _said(groups, rows, against) if against else []
    told = [_counted(runs, len(groups)), *_faults(runs), *said]
    return [*told, f"report: {place / 'report.html'}"]


def _chosen(
    runs: list[Run], groups: list[Group], baseline: str | None, wanted: list[str]
) -> tuple[Group | None, list[str]]:
    """The group to compare with, and the metrics.

    Raises:
        ConfigErrors: what is wrong with either.
    """
    from rlcomp.report.tables import chosen_metrics

    faults, against, metrics = list[str](), None, list[str]()
    try:
        against = baseline_of(groups, baseline) if groups else None
    except ConfigError as error:
        faults.append(str(error))
    try:
        metrics = chosen_metrics(runs, wanted)
    except ConfigError as error:
        faults.append(str(error))
    if faults:
        raise ConfigErrors(faults)
    return against, metrics


def _said(groups: list[Group], rows: list[Result], against: Group) -> list[str]:
    """The page's first sentences: what came out, by its headline metric."""
    from rlcomp.report.verdicts import headline, verdicts

    metric = headline(rows)
    if metric is None:
        return []
    said = [" ".join(one.sentence.split()) for one in verdicts(groups, rows, against, metric)]
    named = " ".join(metric.split())  # it may hold line ends, and lines are read
    above = [f"{named}, last value, paired by seed:"] if len(groups) > 1 else []
    more = [f"… and {len(said) - _SAID} more"] if len(said) > _SAID else []
    return [*above, *said[:_SAID], *more]


def left_by(directory: Path) -> list[Path]:
    """Draw the curve, the front and the report of a finished run: what there is to look at.

    There is no report where what it needs (extra: ``report``) is not installed.
    """
    from rlcomp.report.summary import pictures

    found = pictures(directory)
    if all(importlib.util.find_spec(module) for module in _NEEDED):
        report([str(directory)], None, None, [])
        found.append(directory / "report.html")
    return found


def _counted(runs: list[Run], groups: int) -> str:
    finished = sum(run.state == "finished" for run in runs)
    return f"{len(runs)} runs in {groups} groups, {finished} finished"


def _faults(runs: list[Run]) -> list[str]:
    unsound = (run for run in runs if run.state not in ("finished", "repeated"))
    return [f"{run.directory}: {run.state} {run.error}".rstrip() for run in unsound]


if __name__ == "__main__":
    main()
