"""What runs.sh has written: ``tables.py RUNS --figure F.png``."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.runs import find_runs
from rlcomp.report.statistics import estimate, final, paired

ARMS = ("self_made", "random", "oracle")
HOPS = ("one_hop", "two_hops", "three_hops", "four_hops")
DIFFERENCES = (
    *((arm, "before RL") for arm in ARMS),
    ("self_made", "random"),
    ("self_made", "oracle"),
    ("oracle", "random"),
)
TEACHING = "questions with right and wrong answers"


def finished(folder):
    """The finished runs of an arm, by seed."""
    runs = [run for run in find_runs([str(folder)]) if run.state == "finished"]
    return {run.directory.name: run for run in runs}


def column(run, metric):
    """A metric by step of RL; nan where it was not recorded."""
    return np.array([row.get(metric, np.nan) for row in run.rows if row["phase"] == "rl"])


def measures(run):
    """By step of RL: mean hops of the questions about letters, and shares."""
    shares = np.array([column(run, f"answer_kinds/{name}") for name in HOPS])
    letters = shares.sum(0)
    hops = (shares * np.arange(1, 5)[:, None]).sum(0) / np.where(letters > 0, letters, np.nan)
    right, wrong = column(run, "mask_game/all_right"), column(run, "mask_game/all_wrong")
    return {
        "hops of the letters asked for": hops,
        TEACHING: 1 - right - wrong,
        "right answers": column(run, "mask_game/accuracy"),
        "usable proposals": column(run, "mask_game/valid_fraction"),
        "of them for letters alone": letters + 0 * column(run, "mask_game/valid_fraction"),
    }


def cell(found):
    """A mean with its interval."""
    return f"{found.mean:.2f}" + (
        "" if found.low is None else f" ({found.low:.2f} to {found.high:.2f})"
    )


def over_time(runs):
    """Markdown: every measure, over the fifths of the steps of RL; means over seeds."""
    lines = [
        "| arm | measure | 1st fifth | 2nd | 3rd | 4th | 5th |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm, seeds in runs.items():
        found = [measures(run) for run in seeds.values()]
        for name in found[0]:
            fifths = [[np.nanmean(part) for part in np.array_split(one[name], 5)] for one in found]
            if np.isfinite(fifths).any():
                cells = [cell(estimate(list(part))) for part in zip(*fifths, strict=True)]
                lines.append(f"| {arm} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ends(runs, warm):
    """Markdown: held-out accuracy by hops, before and after, and paired differences."""
    lines = [f"| | {' | '.join(HOPS)} | mean |", "|---|---|---|---|---|---|"]
    values = {"before RL": by_seed(warm), **{arm: by_seed(seeds) for arm, seeds in runs.items()}}
    for arm, seeds in values.items():
        cells = [cell(estimate(list(one))) for one in zip(*seeds.values(), strict=True)]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    for first, second in DIFFERENCES:
        cells = [
            cell(paired(at(values[first], place), at(values[second], place)))
            for place in range(len(HOPS) + 1)
        ]
        lines.append(f"| {first} less {second} | {' | '.join(cells)} |")
    return "\n".join(lines)


def at(values, place):
    """One number of each seed."""
    return {seed: row[place] for seed, row in values.items()}


def by_seed(runs):
    """Final held-out accuracy by hops, and their mean, of each seed."""
    found = {seed: [final(run, f"{name}/sampled") for name in HOPS] for seed, run in runs.items()}
    return {seed: [*row, sum(row) / len(row)] for seed, row in found.items()}


def fives(run, name):
    """A measure as means of five steps of RL."""
    values = measures(run)[name]
    parts = np.array_split(values, max(len(values) // 5, 1))
    return np.arange(len(parts)) * 5 + 3, np.array([np.nanmean(part) for part in parts])


def held_out(run):
    """Steps of RL at which it was evaluated, and the mean accuracy over hops."""
    rows = [row for row in run.rows if row["phase"] == "rl" and "one_hop/sampled" in row]
    means = [np.mean([row[f"{name}/sampled"] for name in HOPS]) for row in rows]
    return np.array([row["step"] for row in rows]), np.array(means)


def draw(runs, warm, path):
    """Hops that are asked, questions that teach, and held-out accuracy, by step."""
    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    shown = {
        "hops of what is asked": lambda run: fives(run, "hops of the letters asked for"),
        "questions with right and wrong answers, share": lambda run: fives(run, TEACHING),
        "held-out accuracy, mean of 1 to 4 hops (higher is better)\n(dotted: before RL)": held_out,
    }
    for axes, (title, of) in zip(figure.subplots(1, 3), shown.items(), strict=True):
        for index, (arm, seeds) in enumerate(runs.items()):
            curves = [of(run) for run in seeds.values()]
            steps, values = curves[0][0], np.array([values for _, values in curves])
            seen = np.isfinite(values).any(0)
            steps, values = steps[seen], values[:, seen]
            axes.plot(steps, np.nanmean(values, 0), color=colour_of(index), label=arm, marker=".")
            ends = np.nanmin(values, 0), np.nanmax(values, 0)
            axes.fill_between(steps, *ends, color=colour_of(index), alpha=0.15)
        axes.set_xlabel("step of RL")
        axes.set_title(title, fontsize="medium")
        axes.grid(alpha=0.3)
    figure.axes[1].legend(fontsize="small", title="mean; band: all seeds", loc="lower left")
    before = np.mean([row[-1] for row in by_seed(warm).values()])
    figure.axes[2].axhline(before, color="0.4", linestyle=":")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    found = {arm: finished(given.runs / arm) for arm in ARMS}
    print(over_time(found), ends(found, finished(given.runs / "warm")), sep="\n\n")
    if given.figure:
        draw(found, finished(given.runs / "warm"), given.figure)
