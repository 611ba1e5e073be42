"""What runs.sh has written: ``tables.py RUNS --figure F.png``.

Arms are compared at equal numbers of tokens, sampled or trained on, between two evaluations by a
straight line; differences are paired by seed, because runs of a seed have the same warm start.
"""

import argparse
from pathlib import Path
from statistics import mean

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.runs import finished
from rlcomp.report.statistics import estimate, paired

ARMS = {
    "plain": "plain",
    "always": "always branching",
    "entropy": "entropy",
    "share": "entropy, with share",
}
# What is counted, by the metric that counts it.
COUNTS = {"rollout/tokens": "sampled", "learner/tokens": "trained"}
TOKENS = (5_000, 20_000)
AGAINST = [
    ("always", "plain"),
    ("entropy", "plain"),
    ("share", "plain"),
    ("entropy", "always"),
    ("share", "entropy"),
]


def curve(run, count):
    """Tokens before each evaluation since the warm start, and the accuracy it found."""
    tokens, points = 0.0, []
    for row in run.rows:
        if row["phase"] == "rl":
            tokens += row.get(count, 0.0)
        if "evaluation/sampled" in row:
            points.append((tokens, row["evaluation/sampled"]))
    return np.array(points).T


def columns(runs, arm):
    """Accuracy of each seed: by what is counted, at so many tokens; then in the end."""
    found = finished(runs / arm)
    at = [
        {seed: float(np.interp(tokens, *curve(run, count))) for seed, run in found.items()}
        for count in COUNTS
        for tokens in TOKENS
    ]
    return [*at, {seed: float(curve(run, "rollout/tokens")[1][-1]) for seed, run in found.items()}]


def table(runs):
    """Markdown: means with t intervals, and differences paired by seed."""
    head = [f"{n // 1000}k {name}" for name in COUNTS.values() for n in TOKENS] + ["last step"]
    lines = [f"| accuracy | seeds | {' | '.join(head)} |", "|---" * (len(head) + 2) + "|"]
    found = {arm: columns(runs, arm) for arm in ARMS}
    for arm, name in ARMS.items():
        cells = [estimate([*each.values()]).text() for each in found[arm] if each]
        lines.append(f"| {name} | {len(found[arm][0])} | {' | '.join(cells)} |")
    for arm, other in AGAINST:
        pairs = list(zip(found[arm], found[other], strict=True))
        if pairs[0][0].keys() & pairs[0][1].keys():
            told = [paired(*pair) for pair in pairs]
            cells = [each.text(sign="+") for each in told]
            lines.append(f"| {ARMS[arm]} less {ARMS[other]} | {told[0].n} | {' | '.join(cells)} |")
    return "\n".join(lines)


def series(runs, arm, metric):
    """Of each finished run a metric by the step of RL, as far as all have it."""
    rows = [
        [row for row in run.rows if row["phase"] == "rl"] for run in finished(runs / arm).values()
    ]
    found = [[row[metric] for row in each if metric in row] for each in rows]
    return [each[: min(map(len, found))] for each in found]


def branches(runs):
    """Markdown: per arm, tokens over the whole run, branches, and the change of entropy."""
    lines = [
        "| means over seeds | sampled | trained | rows branched | dH, steps 1-5 | last 5 |",
        "|---|---|---|---|---|---|",
    ]
    for arm, name in ARMS.items():
        tokens = [mean(map(sum, series(runs, arm, count))) for count in COUNTS]
        cells = [f"{each:,.0f}" for each in tokens]
        rows = [mean(each) for each in series(runs, arm, "branching/branches") if each]
        delta = [each for each in series(runs, arm, "branching/delta_entropy") if each]
        cells.append(f"{mean(rows):.2f}" if rows else "-")
        ends = [slice(0, 5), slice(-5, None)]
        cells += [f"{mean(mean(e[end]) for e in delta):+.3f}" if delta else "-" for end in ends]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(runs, path):
    """Means over seeds: accuracy by either count of tokens, and the change of entropy."""
    figure = Figure(figsize=(14, 4), layout="constrained")
    FigureCanvasAgg(figure)
    *panels, last = figure.subplots(1, 3)
    for axes, (count, name) in zip(panels, COUNTS.items(), strict=True):
        for index, (arm, called) in enumerate(ARMS.items()):
            curves = [curve(run, count) for run in finished(runs / arm).values()]
            if curves:
                grid = np.linspace(0, min(each[0][-1] for each in curves), 41)
                values = [np.interp(grid, *each) for each in curves]
                axes.plot(grid, np.mean(values, 0), color=colour_of(index), label=called)
        axes.set_xlabel(f"{name} tokens")
        axes.set_title("accuracy")
    for index, arm in enumerate(ARMS):
        found = series(runs, arm, "branching/delta_entropy")
        if found and all(found):
            last.plot(np.mean(found, 0), color=colour_of(index))
    last.set_xlabel("step")
    last.set_title("change of entropy at an observation")
    for axes in (*panels, last):
        axes.grid(alpha=0.3)
    panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure")
    given = parser.parse_args()
    print(f"{table(given.runs)}\n\n{branches(given.runs)}")
    if given.figure:
        draw(given.runs, given.figure)


if __name__ == "__main__":
    main()
