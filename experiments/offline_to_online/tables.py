"""Greedy return offline and then online: ``tables.py RUNS|RESULTS.jsonl --figure F.png``."""

import re
from statistics import mean

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.experiment import show
from rlcomp.report.runs import finished
from rlcomp.report.statistics import estimate, paired

ARMS = {
    "bc": "cloning",
    "diffusion_bc": "cloning by diffusion",
    "iql": "IQL",
    "td3_bc": "TD3+BC",
    "cql": "CQL",
    "td3": "TD3, without the term of cloning",
    "sac_offline": "SAC, without the conservative term",
    "shuffled": "TD3+BC, rewards shuffled",
}
PHASES = ("offline", "online")
RETURN = "evaluation/return"
UPDATES = 16  # of a step of either phase; online these are as many steps of the environment
LAST = 3  # evaluations, whose mean counts as the end of a phase
# 200 steps of the data on average, and SAC where they end.
DATA, SAC = -1074, -179


def cpu_seconds(runs, arm):
    """CPU seconds of a run, its share of the start included; NaN of runs started by hand."""
    path = runs / arm / "times"
    if not path.is_file():
        return float("nan")
    children = path.read_text().splitlines()[1]  # user and system
    spent = sum(60 * float(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", children))
    return spent / len(finished(runs / arm))


def curve(run, phase):
    """Updates of a phase and greedy returns, at its evaluations."""
    rows = [row for row in run.rows if row["phase"] == phase and RETURN in row]
    return [[row["step"] * UPDATES, round(row[RETURN], 1)] for row in rows]


def collect(runs):
    """A row a run: both curves."""
    found = []
    for arm in ARMS:
        spent = round(cpu_seconds(runs, arm), 1)
        for seed, run in sorted(finished(runs / arm).items()):
            curves = {phase: curve(run, phase) for phase in PHASES}
            found.append({"arm": arm, "seed": seed, **curves, "cpu": spent})
    return found


def at_end(rows, arm, phase):
    """By seed: the mean return of the last evaluations of a phase; none where it has no such."""
    own = [row for row in rows if row["arm"] == arm and row[phase]]
    return {row["seed"]: mean(value for _, value in row[phase][-LAST:]) for row in own}


def table(rows):
    """Markdown: each seed and means with t intervals, less cloning paired by seed."""
    lines = [
        "| | offline, seeds | mean | less cloning | then online, seeds | mean | CPU s |",
        "|---|---|---|---|---|---|--:|",
    ]
    cloned = at_end(rows, "bc", "offline")
    for arm, name in ARMS.items():
        found, then = at_end(rows, arm, "offline"), at_end(rows, arm, "online")
        if not found:
            continue
        apart = "" if arm == "bc" else paired(found, cloned).text(0, "+")
        spent = next(row["cpu"] for row in rows if row["arm"] == arm)
        cells = [*each(found), apart, *(each(then) if then else ["", ""])]
        lines.append(f"| {name} | {' | '.join(cells)} | {spent:.0f} |")
    return "\n".join(lines)


def each(found):
    """Two cells: the seeds, and their mean with its interval."""
    values = [*found.values()]
    return [", ".join(f"{value:.0f}" for value in values), estimate(values).text(0)]


def draw(rows, path):
    """Greedy return by updates, offline and then online: each seed, and the mean."""
    figure = Figure(figsize=(13, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True, width_ratios=(5, 3))
    for axes, phase in zip(panels, PHASES, strict=True):
        for index, (arm, name) in enumerate(ARMS.items()):
            curves = [np.array(row[phase]).T for row in rows if row["arm"] == arm and row[phase]]
            for updates, values in curves:
                axes.plot(updates, values, color=colour_of(index), alpha=0.25, linewidth=0.8)
            if curves:
                axes.plot(*np.mean(curves, 0), ".-", color=colour_of(index), label=name)
        axes.axhline(SAC, linestyle="--", color="black", label="SAC, where the data end")
        axes.axhline(DATA, linestyle=":", color="black", label="the data, on average")
        axes.grid(alpha=0.3)
        axes.set_xlabel(
            "updates" if phase == "offline" else "updates, each after a step of its own"
        )
        axes.set_title(phase)
    panels[0].set_ylabel("greedy return")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    show(__doc__, collect, table, draw)
