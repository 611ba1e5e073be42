"""What runs.sh has written: ``tables.py RUNS --figure F.png``."""

import argparse
from pathlib import Path
from statistics import mean

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.figures import colour_of
from rlcomp.report.runs import find_runs
from rlcomp.report.statistics import final

ARMS = ("self_made", "self_made_kl", "random_span", "next_token", "top_fifth")
# Questions to which some answers were right, and all of them: of masks, and of next tokens.
GAME = ("mask_game/accuracy", "mask_game/all_right", "mask_game/all_wrong")


def finished(folder):
    """The finished runs of a folder, one a seed."""
    return [run for run in find_runs([str(folder)]) if run.state == "finished"]


def measures(run):
    """Of each step of RL: share of wrong answers, share of questions with right and wrong ones.

    Both are nan in a step without a usable mask.
    """
    rows = [row for row in run.rows if row["phase"] == "rl"]
    if any(name in row for row in rows for name in GAME):
        right, all_right, all_wrong = (
            np.array([row.get(name, np.nan) for row in rows]) for name in GAME
        )
        return 1 - right, 1 - all_right - all_wrong
    right, settled = (
        np.array([row.get(name, np.nan) for row in rows])
        for name in ("reward/correct", "advantage/zero_fraction")
    )
    return 1 - right, 1 - settled


def cell(values):
    """A mean over seeds, from the least to the largest."""
    return f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def over_time(runs, which):
    """Markdown: means over the five fifths of the steps of RL."""
    lines = ["| arm | 1st fifth | 2nd | 3rd | 4th | 5th |", "|---|---|---|---|---|---|"]
    for arm in ARMS:
        seeds = [np.array_split(measures(run)[which], 5) for run in finished(runs / arm)]
        cells = [cell([float(np.nanmean(seed[part])) for seed in seeds]) for part in range(5)]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ends(runs):
    """Markdown: sampled accuracy at the held-out questions of every arm."""
    asked = ARMS[2:]
    lines = [f"| trained on | {' | '.join(asked)} |", "|---|" + "---|" * len(asked)]
    for arm in ARMS:
        found = [finished(runs / "ends" / arm / each) for each in asked]
        cells = [cell([final(run, "evaluation/sampled") for run in seeds]) for seeds in found]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(runs, path):
    """Both measures over the steps, as means of ten steps and of the seeds."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    titles = ("difficulty: share of wrong answers", "questions with right and wrong answers")
    for which, axes in enumerate(figure.subplots(1, 2)):
        for index, arm in enumerate(ARMS):
            seeds = np.array([measures(run)[which] for run in finished(runs / arm)])
            tens = np.nanmean(seeds.reshape(len(seeds), -1, 10), -1)
            steps = np.arange(tens.shape[1]) * 10 + 5
            axes.plot(steps, tens.mean(0), color=colour_of(index), label=arm)
            axes.fill_between(steps, tens.min(0), tens.max(0), color=colour_of(index), alpha=0.15)
        axes.set_xlabel("step of RL")
        axes.set_title(titles[which])
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize="small")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    print(over_time(given.runs, 0), over_time(given.runs, 1), sep="\n\n", end="\n\n")
    print(ends(given.runs))
    if given.figure:
        draw(given.runs, given.figure)
