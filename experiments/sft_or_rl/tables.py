"""What runs.sh has written: ``tables.py RUNS --figure F.png``.

Each run is read at its first evaluation whose sampled accuracy on what is trained on reaches LEVEL;
differences are paired by seed, because runs of a seed go on from one warm start.
"""

import argparse
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.runs import finished
from rlcomp.report.statistics import estimate, paired

TASKS = {"substitution": "the other values", "two_orders": "the opposite order"}
ARMS = ("sft", "sft_slow", "rl", "rl_slow")
INSIDE, OUTSIDE = "evaluation/sampled", "other_task/sampled"
COLUMNS = {OUTSIDE: "sampled", "other_task/greedy": "greedy"}


def evaluations(run):
    """The rows of a run that have both accuracies."""
    return [row for row in run.rows if INSIDE in row and OUTSIDE in row]


def reached(run, level):
    """The first evaluation at which a run is right often enough; the last one if it never is."""
    rows = evaluations(run)
    return next((row for row in rows if row[INSIDE] >= level), rows[-1])


def table(runs, task, level):
    """Markdown: every arm at equal accuracy on what it was trained on."""
    head = ["arm", "seeds", "trained on", *(f"{TASKS[task]}, {name}" for name in COLUMNS.values())]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    warm = finished(runs / task / "rl")
    if warm:
        rows = [evaluations(run)[0] for run in warm.values()]
        cells = [estimate([row[name] for row in rows]).text() for name in (INSIDE, *COLUMNS)]
        lines.append(f"| first evaluation of rl | {len(rows)} | {' | '.join(cells)} |")
    at = {}
    for arm in ARMS:
        found = finished(runs / task / arm)
        at[arm] = {seed: reached(run, level) for seed, run in found.items()}
        if found:
            cells = [
                estimate([row[name] for row in at[arm].values()]).text()
                for name in (INSIDE, *COLUMNS)
            ]
            lines.append(f"| {arm} | {len(found)} | {' | '.join(cells)} |")
    for one, other in (("rl", "sft"), ("rl_slow", "sft_slow")):
        if not at[one].keys() & at[other].keys():
            continue
        pairs = [
            paired(
                {seed: row[name] for seed, row in at[one].items()},
                {seed: row[name] for seed, row in at[other].items()},
            )
            for name in (INSIDE, *COLUMNS)
        ]
        cells = [pair.text(sign="+") for pair in pairs]
        lines.append(f"| {one} less {other} | {pairs[0].n} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(runs, path):
    """Accuracy on what is not trained on against that on what is: a path a run."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (task, outside) in zip(figure.subplots(1, len(TASKS)), TASKS.items(), strict=True):
        for number, arm in enumerate(ARMS):
            for count, run in enumerate(finished(runs / task / arm).values()):
                rows = evaluations(run)
                axes.plot(
                    [row[INSIDE] for row in rows],
                    [row[OUTSIDE] for row in rows],
                    marker=".",
                    linewidth=0.8,
                    color=colour_of(number),
                    label=None if count else arm,
                )
        axes.set(
            title=task, xlabel="trained on, sampled", ylabel=f"{outside}, sampled", ylim=(0, 1)
        )
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--level", type=float, default=0.95)
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    for task in TASKS:
        print(f"{task}\n\n{table(arguments.runs, task, arguments.level)}\n")
    if arguments.figure:
        draw(arguments.runs, arguments.figure)


if __name__ == "__main__":
    main()
