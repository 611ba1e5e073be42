"""Fronts of several methods on the same budget: ``python experiments/pareto/fronts.py RUNS``.

``RUNS`` has a folder per method; the runs in it that share a seed are that method's front.
"""

import argparse
from pathlib import Path
from statistics import mean

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.functional.front import additive_epsilon, hypervolume, igd_plus
from rlcomp.report.figures import colour_of
from rlcomp.report.points import asked_for, path_of
from rlcomp.report.runs import find_runs
from rlcomp.report.statistics import estimate


def points_of(run, names):
    """Where a run ends: one point, or one for each preference its policy was asked at."""
    asked = asked_for(run.rows, names)
    return np.array(list(asked.values())) if asked else path_of(run.rows, names)[1][-1:]


def visited(run, names):
    """Every evaluation of the RL phase, and where the run ends."""
    rows = [row for row in run.rows if row["phase"] != "warm_start"]
    return np.concatenate([path_of(rows, names)[1], points_of(run, names)])


def by_seed(folder, points, names):
    """For every seed the points of all its runs, shape ``[n, K]``."""
    found = {}
    for run in find_runs([str(folder)]):
        if run.state == "finished":
            found.setdefault(run.values["seed"], []).append(points(run, names))
    return {seed: np.concatenate(parts) for seed, parts in sorted(found.items())}


def cell(values):
    """A mean over seeds with its 95 % interval."""
    found = estimate(values)
    ends = "" if found.low is None else f" ({found.low:.3f} to {found.high:.3f})"
    return f"{found.mean:.3f}{ends}"


def table(fronts, on_the_way, names):
    """Markdown: quality of each method's end points, and hypervolume of all it visited."""
    worst = [0.0] * len(names)
    aim = np.concatenate([points for seeds in fronts.values() for points in seeds.values()])
    lines = [
        f"| method | points | {', '.join(names)} | hypervolume | IGD+ | ε | on the way |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, seeds in fronts.items():
        sets = list(seeds.values())
        middle = " ".join(
            f"{mean(points.mean(0)[k] for points in sets):.2f}" for k in range(len(names))
        )
        lines.append(
            f"| {name} | {len(sets[0])} | {middle} "
            f"| {cell([hypervolume(points, worst) for points in sets])} "
            f"| {cell([igd_plus(points, aim) for points in sets])} "
            f"| {cell([additive_epsilon(points, aim) for points in sets])} "
            f"| {cell([hypervolume(points, worst) for points in on_the_way[name].values()])} |"
        )
    return "\n".join(lines)


def draw(fronts, path, names):
    """End points of every seed, one panel a method, before those of all others: two objectives."""
    figure = Figure(figsize=(13, 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    columns = -(-len(fronts) // 2)
    panels = figure.subplots(2, columns, sharex=True, sharey=True, squeeze=False).flat
    every = np.concatenate([points for seeds in fronts.values() for points in seeds.values()])
    for (name, seeds), axes in zip(fronts.items(), panels, strict=False):
        axes.scatter(*every.T, color="0.85", s=9)
        for index, points in enumerate(seeds.values()):
            ordered = points[np.argsort(points[:, 0])]
            axes.plot(*ordered.T, color=colour_of(index), marker="o", markersize=4, linewidth=0.8)
        axes.set_title(name, fontsize="small")
        axes.grid(alpha=0.3)
    for axes in list(panels):
        axes.set_visible(False)
    figure.supxlabel(names[0])
    figure.supylabel(names[1])
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--objectives", nargs="+", default=["correctness", "brevity"])
    arguments = parser.parse_args()
    folders = sorted(each for each in arguments.runs.iterdir() if each.is_dir())
    names = tuple(arguments.objectives)
    fronts = {each.name: by_seed(each, points_of, names) for each in folders}
    print(table(fronts, {each.name: by_seed(each, visited, names) for each in folders}, names))
    if arguments.figure:
        draw(fronts, arguments.figure, names)
