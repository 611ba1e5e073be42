"""What runs.sh has written: ``tables.py RUNS --figure F.png``.

Runs of a seed and a number of steps have the same warm start, so that differences are paired.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.runs import finished
from rlcomp.report.statistics import paired

ARMS = {
    "outcome": "RL, outcome",
    "states": "RL, turns by states (GiGPO)",
    "turns": "RL, pay of turns",
}
# Of the demonstrations: how likely one asks once more; letters, of which one is guessed.
ASKED, LETTERS = 0.6, 16


def horizons(runs):
    """The numbers of steps that were tried."""
    return sorted(int(place.name) for place in (runs / "outcome").iterdir())


def success(runs, arm, steps, at):
    """By seed: the accuracy of the first evaluation (the warm start's) or of the last."""
    found = finished(runs / arm / str(steps))
    values = {
        seed: [row["evaluation/sampled"] for row in run.rows if "evaluation/sampled" in row]
        for seed, run in found.items()
    }
    return {seed: each[at] for seed, each in values.items() if each}


def columns(runs):
    """By name of an arm, imitation first: for each number of steps the accuracies by seed."""
    many = horizons(runs)
    found = {"imitation": [success(runs, "outcome", steps, 0) for steps in many]}
    return found | {
        name: [success(runs, arm, steps, -1) for steps in many] for arm, name in ARMS.items()
    }


def table(runs):
    """Markdown: medians with ranges, and mean differences to the outcome's arm, paired by seed."""
    many, found = horizons(runs), columns(runs)
    head = " | ".join(f"{steps} steps" for steps in many)
    lines = [f"| accuracy | {head} |", "|---" * (len(many) + 1) + "|"]
    expected = [f"{demonstrated(steps):.2f}" for steps in many]
    lines.append(f"| demonstrations | {' | '.join(expected)} |")
    for name, each in found.items():
        cells = [ranged([*values.values()]) for values in each]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    base = found[ARMS["outcome"]]
    for name in [*ARMS.values()][1:]:
        told = [paired(*pair).text(sign="+") for pair in zip(found[name], base, strict=True)]
        lines.append(f"| {name} less outcome | {' | '.join(told)} |")
    return "\n".join(lines)


def ranged(values):
    """Median, least and most: seeds that learn and seeds that do not have no useful mean."""
    return f"{np.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def demonstrated(steps):
    """Share of demonstrations that are right: all steps are asked, or the guess is lucky."""
    return ASKED**steps + (1 - ASKED**steps) / LETTERS


def draw(runs, path):
    """Accuracy by the number of steps: each seed a dot, and the medians."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes, many = figure.subplots(), horizons(runs)
    grid = np.linspace(min(many), max(many), 50)
    axes.plot(grid, demonstrated(grid), "--", color="grey", label="demonstrations")
    for index, (name, each) in enumerate(columns(runs).items()):
        shift = 0.05 * (index - 1.5)
        axes.plot(
            many, [np.median([*v.values()]) for v in each], color=colour_of(index), label=name
        )
        for steps, values in zip(many, each, strict=True):
            places = [steps + shift] * len(values)
            axes.plot(places, [*values.values()], ".", color=colour_of(index), alpha=0.6)
    axes.set_xlabel("steps that the task needs")
    axes.set_ylabel("accuracy (held out, sampled)")
    axes.grid(alpha=0.3)
    figure.legend(fontsize="small", loc="outside upper center", ncols=3)
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
