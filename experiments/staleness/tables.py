"""What runs.sh has written: ``tables.py RUNS --figure F.png``.

Runs of a seed have the same warm start, so that differences are paired.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.runs import finished
from rlcomp.report.statistics import area_under, curve, estimate, paired

ARMS = {"grpo": "loss=grpo", "decoupled": "loss=areal_decoupled"}
METRIC = "evaluation/sampled"
STALENESS = (1, 2, 4, 8)
# Steps of RL behind the warm start.
STEPS = 100


def learning(run):
    """Steps of RL and the accuracies there, from the end of the warm start on."""
    steps, values = curve(run, METRIC)
    return steps - (steps[-1] - STEPS), values


def numbers(runs, arm, staleness, of):
    """A number of each run, by seed."""
    found = finished(runs / arm / str(staleness))
    return {seed: of(*learning(run)) for seed, run in found.items()}


def last(steps, values):
    """Accuracy at the end."""
    return values[-1]


def worst(steps, values):
    """The lowest accuracy of an evaluation."""
    return values.min()


NUMBERS = {"mean over the steps": area_under, "lowest": worst, "at the end": last}


def table(runs):
    """Markdown: means with t intervals, and differences paired by seed."""
    lines = ["| accuracy | staleness | " + " | ".join(ARMS.values()) + " | difference |"]
    lines.append("|---|---|" + "---|" * (len(ARMS) + 1))
    for name, of in NUMBERS.items():
        whole = numbers(runs, "grpo", 0, of)
        lines.append(f"| {name} | 0 | {told(whole)} | | |")
        for staleness in STALENESS:
            both = [numbers(runs, arm, staleness, of) for arm in ARMS]
            cells = " | ".join(map(told, both))
            apart = paired(both[1], both[0]).text(sign="+")
            lines.append(f"| {name} | {staleness} | {cells} | {apart} |")
    return "\n".join(lines)


def told(values):
    """Mean with a 95 % t interval."""
    return estimate([*values.values()]).text()


def draw(runs, path):
    """Accuracy by step, for each staleness: every seed a thin line, and the means."""
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(STALENESS), sharey=True)
    for axes, staleness in zip(panels, STALENESS, strict=True):
        lines(axes, runs / "grpo" / "0", "no staleness", "grey")
        for index, (arm, name) in enumerate(ARMS.items()):
            lines(axes, runs / arm / str(staleness), name, colour_of(index))
        axes.set_title(f"staleness {staleness}", fontsize="medium")
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy (held out, sampled)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize="small", loc="outside upper center", ncols=3)
    figure.savefig(path, dpi=110)


def lines(axes, folder, name, colour):
    """The runs of an arm, and their mean."""
    found = [learning(run) for run in finished(folder).values()]
    for steps, values in found:
        axes.plot(steps, values, color=colour, alpha=0.25, linewidth=0.8)
    axes.plot(found[0][0], np.mean([v for _, v in found], 0), color=colour, label=name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure")
    given = parser.parse_args()
    print(table(given.runs))
    if given.figure:
        draw(given.runs, given.figure)


if __name__ == "__main__":
    main()
