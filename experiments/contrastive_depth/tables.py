"""What runs.sh has written: ``tables.py RUNS --figure F.png``."""

import argparse
import re
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.runs import finished
from rlcomp.report.statistics import curve, estimate, final, paired

ARMS = {"4": "depth 4", "16": "depth 16", "64": "depth 64"}
SUCCESS = "evaluation/success"
METRICS = {
    SUCCESS: "goals across the wall reached",
    "control/accuracy": "own goal of a row found among 128",
}
# Of who always walks straight on.
STRAIGHT = 0.30
UPDATES = 20  # of a round


def cpu_seconds(runs, arm):
    """CPU seconds of a run, its share of the start included; of the sweeps that measured them."""
    spent = number = 0
    for path in (runs / arm).glob("**/times"):
        children = path.read_text().splitlines()[1]  # user and system
        spent += sum(60 * float(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", children))
        number += len(finished(path.parent))
    return spent / number if number else float("nan")


def success(runs, arm):
    """By seed: the share of goals across the wall that are reached in the end."""
    return {seed: final(run, SUCCESS) for seed, run in finished(runs / arm).items()}


def table(runs):
    """Markdown: means with t intervals, differences to the shallowest paired by seed, CPU."""
    head = "| | across the wall, seeds | mean | less depth 4 | accuracy | CPU s |"
    lines = [head, "|---" * 6 + "|"]
    first = success(runs, next(iter(ARMS)))
    for arm, name in ARMS.items():
        found = success(runs, arm)
        if not found:
            continue
        each = " ".join(f"{value:.2f}" for value in found.values())
        apart = "" if found == first else paired(found, first).text(sign="+")
        accuracy = [final(run, "control/accuracy") for run in finished(runs / arm).values()]
        lines.append(
            f"| {name} | {each} | {estimate([*found.values()]).text()} | {apart} "
            f"| {np.mean(accuracy):.2f} | {cpu_seconds(runs, arm):.0f} |"
        )
    return "\n".join(lines)


def draw(runs, path):
    """Success and the critic's accuracy by updates: each seed, and the mean."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2)
    for axes, (metric, name) in zip(panels, METRICS.items(), strict=True):
        for index, (arm, depth) in enumerate(ARMS.items()):
            curves = [curve(run, metric) for run in finished(runs / arm).values()]
            for rounds, values in curves:
                axes.plot(rounds * UPDATES, values, color=colour_of(index), alpha=0.2)
            if curves:
                middle = np.mean([values for _, values in curves], 0)
                label = f"{depth}, {len(curves)} seeds"
                axes.plot(curves[0][0] * UPDATES, middle, color=colour_of(index), label=label)
        axes.set_xlabel("updates")
        axes.set_ylabel(name)
        axes.grid(alpha=0.3)
    panels[0].axhline(STRAIGHT, linestyle="--", color="grey", label="straight on")
    panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=110)


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
