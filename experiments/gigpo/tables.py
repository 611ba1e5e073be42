"""What runs.sh has written: ``tables.py RUNS --figure F.png``.

Arms are compared at equal numbers of sampled tokens, between two evaluations by a straight line;
differences are paired by seed, because runs of a seed have the same warm start.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.runs import finished
from rlcomp.report.statistics import estimate, paired

ARMS = {
    "grpo": "GRPO",
    "grpo_discounted": "GRPO, pay discounted",
    "turn_return": "return of turns, discounted",
    "gigpo": "GiGPO",
    "gigpo_others": "GiGPO, baseline of others",
    "gigpo_shuffled": "GiGPO, anchors shuffled",
    "gigpo_undiscounted": "GiGPO, not discounted",
    "gigpo_undiscounted_shuffled": "GiGPO, not discounted, anchors shuffled",
}
METRICS = {"evaluation/sampled": "success", "evaluation/turns": "moves"}
TOKENS = (20_000, 40_000)
AGAINST = [
    *((arm, "grpo") for arm in ARMS if arm != "grpo"),
    ("gigpo", "grpo_discounted"),
    ("gigpo", "gigpo_others"),
    ("gigpo", "gigpo_shuffled"),
    ("gigpo_undiscounted", "gigpo_undiscounted_shuffled"),
]


def curve(run, metric):
    """Tokens sampled before each evaluation since the warm start, and what it found."""
    sampled, points = 0.0, []
    for row in run.rows:
        sampled += row.get("rollout/tokens", 0.0)
        if metric in row:
            points.append((sampled, row[metric]))
    return np.array(points).T


def at(run, metric, tokens):
    """A metric when so many tokens had been sampled; at the end of a run that sampled fewer."""
    return float(np.interp(tokens, *curve(run, metric)))


def columns(runs, arm):
    """Of each metric and number of tokens the value of each seed."""
    found = finished(runs / arm)
    return [
        {seed: at(run, metric, tokens) for seed, run in found.items()}
        for metric in METRICS
        for tokens in TOKENS
    ]


def table(runs):
    """Markdown: means with t intervals, and differences paired by seed."""
    head = [f"{name} at {n // 1000}k" for name in METRICS.values() for n in TOKENS]
    lines = [f"| | seeds | {' | '.join(head)} |", "|---" * (len(head) + 2) + "|"]
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


def draw(runs, path):
    """Means over seeds by sampled tokens."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(METRICS))
    grid = np.linspace(0, TOKENS[-1], 41)
    for axes, (metric, name) in zip(panels, METRICS.items(), strict=True):
        for index, (arm, called) in enumerate(ARMS.items()):
            found = finished(runs / arm).values()
            values = [np.interp(grid, *curve(run, metric)) for run in found]
            if values:
                shape = "--" if "shuffled" in arm else "-"
                axes.plot(grid, np.mean(values, 0), shape, color=colour_of(index), label=called)
        axes.set_xlabel("sampled tokens")
        axes.set_title(name)
        axes.grid(alpha=0.3)
    panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure")
    given = parser.parse_args()
    runs = [run for arm in ARMS for run in finished(given.runs / arm).values()]
    least = min(curve(run, "evaluation/turns")[0][-1] for run in runs)
    print(f"{table(given.runs)}\n\nEvery run sampled {least:.0f} tokens or more.")
    if given.figure:
        draw(given.runs, given.figure)


if __name__ == "__main__":
    main()
