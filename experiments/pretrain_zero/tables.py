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

ARMS = ("self_made", "random_span", "top_fifth", "next_token")
ASKED = ("words", "top_fifth", "random")


def finished(folder):
    """The finished runs of a folder, one a seed."""
    return [run for run in find_runs([str(folder)]) if run.state == "finished"]


def difficulty(run):
    """1 - the share of right answers to the questions of each step of RL."""
    share = "mask_game/accuracy" if "mask_game" in str(run.rows[-1]) else "reward/correct"
    rows = [row for row in run.rows if row["phase"] == "rl"]
    return np.array([1 - row.get(share, np.nan) for row in rows])


def mixed(run):
    """Share of the questions of each step whose answers were neither all right nor all wrong."""
    rows = [row for row in run.rows if row["phase"] == "rl"]
    if "mask_game/all_right" in rows[-1]:
        return np.array(
            [1 - row["mask_game/all_right"] - row["mask_game/all_wrong"] for row in rows]
        )
    return np.array([1 - row["advantage/zero_fraction"] for row in rows])


def cell(values):
    """A mean over seeds, from the least to the largest."""
    return f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def over_time(runs, measured):
    """Markdown: means over the five fifths of the steps of RL."""
    lines = ["| arm | 1st fifth | 2nd | 3rd | 4th | 5th |", "|---|---|---|---|---|---|"]
    for arm in ARMS:
        fifths = [
            [np.nanmean(each) for each in np.array_split(measured(run), 5)]
            for run in finished(runs / arm)
        ]
        cells = [cell([float(seed[index]) for seed in fifths]) for index in range(5)]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ends(runs):
    """Markdown: greedy accuracy at the held-out questions of every arm."""
    lines = [f"| trained on | {' | '.join(ASKED)} |", "|---|" + "---|" * len(ASKED)]
    for arm in ARMS:
        found = [finished(runs / "ends" / arm / asked) for asked in ASKED]
        cells = [cell([final(run, "evaluation/greedy") for run in seeds]) for seeds in found]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(runs, path):
    """Difficulty and share of mixed groups over the steps, means of ten steps and of the seeds."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (measured, title) in zip(
        figure.subplots(1, 2),
        [(difficulty, "difficulty: share of wrong answers"), (mixed, "share of mixed groups")],
        strict=True,
    ):
        for index, arm in enumerate(ARMS):
            seeds = np.array([measured(run) for run in finished(runs / arm)])
            tens = np.nanmean(seeds[:, : seeds.shape[1] // 10 * 10].reshape(len(seeds), -1, 10), -1)
            steps = np.arange(tens.shape[1]) * 10 + 5
            axes.plot(steps, tens.mean(0), color=colour_of(index), label=arm)
            axes.fill_between(steps, tens.min(0), tens.max(0), color=colour_of(index), alpha=0.15)
        axes.set_xlabel("step of RL")
        axes.set_title(title)
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize="small")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    print(over_time(given.runs, difficulty), over_time(given.runs, mixed), sep="\n\n", end="\n\n")
    print(ends(given.runs))
    if given.figure:
        draw(given.runs, given.figure)
