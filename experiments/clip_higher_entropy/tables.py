"""What the sweep has written: ``tables.py RUNS --figure F.png``."""

import argparse

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.runs import find_runs
from rlcomp.report.statistics import estimate, paired

ARMS = ("none", "clip", "clip_higher")
CLIPPED = ("trust_region/clip_fraction_low", "trust_region/clip_fraction_high")


def found(runs):
    """Finished runs: by arm, then by seed."""
    ended = [run for run in find_runs([runs]) if run.state == "finished"]
    arms: dict[str, dict] = {name: {} for name in ARMS}
    for run in ended:
        arms[run.overrides["loss/trust_region"]][run.seed] = run
    return arms


def column(run, metric):
    """A metric at the steps of RL that recorded it, and those steps."""
    rows = [row for row in run.rows if row["phase"] == "rl" and metric in row]
    return np.array([row["step"] for row in rows]), np.array([row[metric] for row in rows])


def clipped(run):
    """Share of clipped tokens by step of RL, at both bounds together; 0 without a clip."""
    steps, entropy = column(run, "policy/entropy")
    parts = [column(run, metric)[1] for metric in CLIPPED]
    return steps, sum((part for part in parts if len(part)), np.zeros(len(entropy)))


def numbers(run):
    """What the tables show of a run."""
    entropy = column(run, "policy/entropy")[1]
    accuracy = column(run, "evaluation/sampled")[1]
    return {
        "tokens clipped, share over the run": clipped(run)[1].mean(),
        "... of them at the upper bound, share of all tokens": high(run),
        "entropy over the run (nats a token)": entropy.mean(),
        "entropy of the last step": entropy[-1],
        "entropy when half of the answers are right": at_half(run),
        "accuracy in the middle": accuracy[0],
        "accuracy at the end": accuracy[-1],
    }


def at_half(run):
    """Entropy at the first step of which half of the answers were right; nan if there is none."""
    right = np.flatnonzero(column(run, "reward/correct")[1] >= 0.5)
    return column(run, "policy/entropy")[1][right[0]] if len(right) else np.nan


def high(run):
    """Mean share of tokens that are clipped at the upper bound."""
    values = column(run, CLIPPED[1])[1]
    return values.mean() if len(values) else 0.0


def cell(one):
    """A mean with its interval; a dash of no seeds."""
    if one is None:
        return "-"
    return f"{one.mean:.3f}" + ("" if one.low is None else f" ({one.low:.3f} to {one.high:.3f})")


def table(arms):
    """Markdown: each arm, and differences to clip, paired by seed."""
    pairs = ("clip_higher", "none")
    lines = [f"| | {' | '.join(ARMS)} | {' | '.join(f'{one} less clip' for one in pairs)} |"]
    lines.append("|---" * (1 + len(ARMS) + len(pairs)) + "|")
    values = {
        arm: {seed: numbers(run) for seed, run in seeds.items()} for arm, seeds in arms.items()
    }
    for name in next(iter(values["clip"].values())):
        of = {arm: {seed: row[name] for seed, row in rows.items()} for arm, rows in values.items()}
        of = {arm: {seed: x for seed, x in one.items() if x == x} for arm, one in of.items()}
        cells = [cell(estimate(list(of[arm].values()))) for arm in ARMS]
        cells += [cell(paired(of[arm], of["clip"])) for arm in pairs]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def accuracy(run):
    """Held-out accuracy at the evaluations, from the end of the warm start on."""
    before = [
        row["evaluation/sampled"]
        for row in run.rows
        if row["phase"] == "warm_start" and "evaluation/sampled" in row
    ]
    steps, values = column(run, "evaluation/sampled")
    return np.array([0, *steps]), np.array([before[-1], *values])


def draw(arms, path):
    """Entropy, accuracy and the share of clipped tokens by step."""
    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3)
    entropy = ("entropy (nats a token)", ARMS, lambda run: column(run, "policy/entropy"))
    right = ("held-out accuracy, sampled (higher is better)", ARMS, accuracy)
    bound = ("share of tokens clipped, both bounds (0.1: dotted)", ARMS[1:], clipped)
    for axes, (title, names, of) in zip(panels, (entropy, right, bound), strict=True):
        for arm in names:
            curves = [of(run) for run in arms[arm].values()]
            steps, values = curves[0][0], np.array([values for _, values in curves])
            colour = colour_of(ARMS.index(arm))
            axes.plot(steps, values.mean(0), color=colour, label=arm, marker=".")
            axes.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=0.15)
        axes.set_xlabel("step of RL")
        axes.set_title(title, fontsize="medium")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", title="mean; band: all seeds")
    panels[2].axhline(0.1, color="0.4", linestyle=":")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs")
    parser.add_argument("--figure")
    given = parser.parse_args()
    arms = found(given.runs)
    print(table(arms))
    if given.figure:
        draw(arms, given.figure)
