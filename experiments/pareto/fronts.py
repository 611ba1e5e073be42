"""Fronts of several methods on the same budget: ``python experiments/pareto/fronts.py RUNS``.

``RUNS`` has a folder per method; the runs in it that share a seed are that method's front. Seeds
with fewer points than others of their method do not count, nor do methods whose runs did not record
all of the objectives, and fewer than five points have no hypervolume.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.functional.pareto_front import hypervolume
from rlcomp.report.charts import colour_of
from rlcomp.report.returns import final_returns
from rlcomp.report.runs import find_runs
from rlcomp.report.statistics import estimate

ENOUGH = 5


def by_seed(folder, names):
    """For every seed the end points of all its runs, shape ``[n, K]``."""
    found = {}
    for run in find_runs([str(folder)]):
        if run.state == "finished":
            found.setdefault(run.values["seed"], []).extend(final_returns(run.rows, names).values())
    most = max((len(points) for points in found.values()), default=0)
    return {seed: np.array(each) for seed, each in sorted(found.items()) if len(each) == most > 0}


def cell(values):
    """A mean over seeds with its 95 % interval."""
    found = estimate(values)
    ends = "" if found.low is None else f" ({found.low:.3f} to {found.high:.3f})"
    return f"{found.mean:.3f}{ends}"


def table(fronts, names):
    """Markdown: where each method's runs end, and the hypervolume above 0 of each seed's front."""
    ends = [f"{name}, least, mean, most" for name in names]
    lines = [f"| method | seeds | points | {' | '.join(ends)} | hypervolume |"]
    lines.append("|" + "---|" * (4 + len(names)))
    for name, seeds in fronts.items():
        points = np.concatenate([*seeds.values()])
        spread = [points.min(0), points.mean(0), points.max(0)]
        count = len(points) // len(seeds)
        volumes = [hypervolume(each, [0.0] * len(names)) for each in seeds.values()]
        cells = [" ".join(f"{one[k]:.2f}" for one in spread) for k in range(len(names))]
        cells.append(cell(volumes) if count >= ENOUGH else "-")
        lines.append(f"| {name} | {len(seeds)} | {count} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(fronts, path, names):
    """Two objectives: end points, one panel a method, one colour a seed, before all others'."""
    figure = Figure(figsize=(3.2 * len(fronts), 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(fronts), sharex=True, sharey=True, squeeze=False)[0]
    every = np.concatenate([points for seeds in fronts.values() for points in seeds.values()])
    seeds = sorted({seed for found in fronts.values() for seed in found})
    for (name, found), axes in zip(fronts.items(), panels, strict=True):
        axes.scatter(*every.T, color="0.85", s=12)
        for seed, points in found.items():
            axes.scatter(*points.T, color=colour_of(seeds.index(seed)), s=26, alpha=0.8)
        axes.annotate(
            "", (0.22, 0.36), (0.08, 0.2), "axes fraction", arrowprops={"arrowstyle": "->"}
        )
        axes.text(0.05, 0.12, "better", transform=axes.transAxes)
        axes.set_title(name, fontsize="small")
        axes.grid(alpha=0.3)
    shown = [axes.scatter([], [], color=colour_of(index)) for index in range(len(seeds))]
    shown.append(axes.scatter([], [], color="0.85", s=12))
    labels = [*(f"seed {seed}" for seed in seeds), "all methods"]
    figure.legend(shown, labels, loc="outside upper center", ncols=len(labels), fontsize="small")
    figure.supxlabel(f"mean {names[0]} of held-out answers", fontsize="medium")
    figure.supylabel(f"mean {names[1]}", fontsize="medium")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--objectives", nargs="+", default=["correctness", "brevity"])
    parser.add_argument("--without", nargs="*", default=["base"], help="folders that are no method")
    given = parser.parse_args()
    folders = sorted(each for each in given.runs.iterdir() if each.is_dir())
    names = tuple(given.objectives)
    fronts = {each.name: by_seed(each, names) for each in folders if each.name not in given.without}
    fronts = {name: seeds for name, seeds in fronts.items() if seeds}
    print(table(fronts, names))
    if given.figure:
        draw(fronts, given.figure, names)
