"""Tables and curves of an experiment's runs, for its README.

``python experiments/measure.py RUNS... --metrics evaluation/sampled policy/entropy --figure F.png``
"""

import argparse
from dataclasses import replace
from statistics import mean

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.groups import group_runs
from rlcomp.report.runs import find_runs
from rlcomp.report.statistics import area, band, curve, estimate
from rlcomp.report.tables import seconds


def after_warm_start(run):
    """The run from the end of its warm start on."""
    before = [row for row in run.rows if row["phase"] == "warm_start"]
    return replace(run, rows=run.rows[max(len(before) - 1, 0) :])


def table(groups, metric):
    """Markdown: the metric before RL and at the end, each seed, mean, interval, over steps."""
    lines = [
        f"| {metric} | before | each seed, at the end | mean | 95 % interval | over steps | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for group in groups:
        runs = [run for run in group.finished if len(curve(run, metric)[1])]
        if not runs:
            continue
        last = [float(curve(run, metric)[1][-1]) for run in runs]
        first = [float(curve(run, metric)[1][0]) for run in runs]
        found = estimate(last)
        areas = [value for run in runs if (value := area(run, metric)) is not None]
        each = " ".join(f"{value:.3f}" for value in last)
        ends = "-" if found.low is None else f"{found.low:.3f} to {found.high:.3f}"
        lines.append(
            f"| {group.name} | {mean(first):.3f} | {each} | {found.mean:.3f} "
            f"| {ends} | {mean(areas):.3f} "
            f"| {mean(seconds(run) for run in runs):.0f} |"
        )
    return "\n".join(lines)


def draw_grid(groups, metric, path):
    """One panel a group, before the means of all the others."""
    figure = Figure(figsize=(12, 2.2 * -(-len(groups) // 5)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(-(-len(groups) // 5), 5, sharex=True, sharey=True, squeeze=False)
    found = {group.name: band(group.finished, metric) for group in groups}
    for axes, group in zip(panels.flat, groups, strict=False):
        for steps, middle, _, _ in found.values():
            axes.plot(steps, middle, color="0.85", linewidth=0.7)
        steps, middle, low, high = found[group.name]
        axes.plot(steps, middle, color=colour_of(0))
        axes.fill_between(steps, low, high, color=colour_of(0), alpha=0.2)
        axes.set_title(group.name, fontsize="small")
        axes.grid(alpha=0.3)
    for axes in panels.flat[len(groups) :]:
        axes.set_visible(False)
    figure.supxlabel("step")
    figure.supylabel(metric)
    figure.savefig(path, dpi=110)


def draw(groups, metrics, path):
    """One panel a metric; mean and interval over seeds."""
    figure = Figure(figsize=(6.4 * len(metrics), 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    for axes, metric in zip(panels, metrics, strict=True):
        for index, group in enumerate(groups):
            found = band(group.finished, metric)
            if found is not None:
                steps, middle, low, high = found
                axes.plot(steps, middle, color=colour_of(index), label=group.name)
                axes.fill_between(steps, low, high, color=colour_of(index), alpha=0.15)
        axes.set_xlabel("step")
        axes.set_title(metric)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--metrics", nargs="+", default=["evaluation/sampled"])
    parser.add_argument("--figure")
    given = parser.parse_args()
    groups = group_runs([after_warm_start(run) for run in find_runs(given.runs)])
    for metric in given.metrics:
        print(table(groups, metric), end="\n\n")
    if given.figure:
        if len(groups) > 8:
            draw_grid(groups, given.metrics[0], given.figure)
        else:
            draw(groups, given.metrics, given.figure)


if __name__ == "__main__":
    main()
