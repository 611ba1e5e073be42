"""What sums.sh has written: ``sums.py RUNS --figure F.png``.

``RUNS`` has a folder per arm, with one run a seed. Differences are paired by seed: runs of a seed
go on from one checkpoint and are asked the same held-out prompts.
"""

import argparse
from pathlib import Path
from statistics import mean

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.runs import finished
from rlcomp.report.statistics import estimate, final, paired

ARMS = ("stop", "imitation", "rejection", "rpt", "rpt_random")
METRICS = {
    "evaluation/sampled": "sampled, 3 to 6 operands",
    "evaluation/greedy": "greedy, 3 to 6 operands",
    "longer/sampled": "sampled, 7 operands",
}
CHANCE = 0.2


def ends(found, metric):
    """The last value of each seed."""
    return {seed: final(run, metric) for seed, run in found.items()}


def total(run, metric):
    """The sum of a metric over a run's steps, in thousands; tokens of the warm start count too."""
    names = (metric, metric.replace("learner/", "sft_learner/"))
    return sum(row.get(name, 0.0) for row in run.rows for name in {*names}) / 1000


def table(arms):
    """Markdown: what every arm has cost, and how right it is at the end."""
    head = ["arm", "seeds", "trained tokens, k", "sampled tokens, k", *METRICS.values()]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for arm, found in arms.items():
        costs = [
            f"{mean(total(run, name) for run in found.values()):.0f}"
            for name in ("learner/tokens", "rollout/tokens")
        ]
        rates = [estimate([*ends(found, metric).values()]).text(3) for metric in METRICS]
        lines.append(f"| {' | '.join([arm, str(len(found)), *costs, *rates])} |")
    return "\n".join(lines)


def differences(arms, baseline):
    """Markdown: each arm less the baseline, paired by seed."""
    head = [f"less {baseline}", "seeds", *METRICS.values()]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for arm, found in arms.items():
        if arm == baseline:
            continue
        pairs = [paired(ends(found, m), ends(arms[baseline], m)) for m in METRICS]
        cells = [str(pairs[0].n), *(pair.text(3, "+") for pair in pairs)]
        lines.append(f"| {' | '.join([arm, *cells])} |")
    return "\n".join(lines)


def draw(arms, path):
    """Each seed's accuracy by arm, with the mean and its interval."""
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(METRICS), sharey=True)
    for axes, (metric, name) in zip(panels, METRICS.items(), strict=True):
        for place, found in enumerate(arms.values()):
            values = [*ends(found, metric).values()]
            spread = [
                place + 0.06 * (index - (len(values) - 1) / 2) for index in range(len(values))
            ]
            label = "one seed" if place == 0 else None
            axes.plot(
                spread, values, "o", color=colour_of(0), alpha=0.45, markersize=4, label=label
            )
            known = estimate(values)
            low, high = (known.mean if x is None else x for x in (known.low, known.high))
            bars = [[known.mean - low], [high - known.mean]]
            label = "mean, 95 % t interval" if place == 0 else None
            axes.errorbar(place, known.mean, bars, fmt="_", color="black", capsize=5, label=label)
        axes.axhline(CHANCE, color="0.6", linestyle=":", label="guessing")
        axes.set_xticks(range(len(arms)), arms, rotation=25)
        axes.set_title(name, fontsize="medium")
        axes.grid(axis="y", alpha=0.3)
    panels[0].set_ylim(-0.02, 1.02)
    panels[0].set_ylabel("share of right answers (higher is better)")
    panels[-1].legend(fontsize="small", loc="upper right")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure")
    given = parser.parse_args()
    known = {arm: found for arm in ARMS if (found := finished(given.runs / arm))}
    print(table(known), end="\n\n")
    for baseline in [arm for arm in ("imitation", "stop", "rpt") if arm in known]:
        print(differences(known, baseline), end="\n\n")
    draw(known, given.figure)
