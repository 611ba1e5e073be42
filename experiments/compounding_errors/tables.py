"""Steps off the road against the horizon: ``tables.py RUNS|RESULTS.jsonl --figure F.png``."""

import re

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.experiment import show
from rlcomp.report.runs import finished

ARMS = {
    "bc": "cloning, 80 labels",
    "bc_more": "cloning, 880 labels",
    "dagger": "DAgger",
    "sac": "SAC, rewards alone",
}
HORIZONS = (25, 50, 100, 200, 400, 800)


def cpu_seconds(runs, arm):
    """CPU seconds of a run, its share of the start included; NaN of runs started by hand."""
    path = runs / arm / "times"
    if not path.is_file():
        return float("nan")
    children = path.read_text().splitlines()[1]  # user and system
    spent = sum(60 * float(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", children))
    return spent / len(finished(runs / arm))


def collect(runs):
    """A row an evaluation: steps met so far, and those of the first H that were off the road."""
    found = []
    for arm in ARMS:
        spent = round(cpu_seconds(runs, arm), 1)
        for seed, run in sorted(finished(runs / arm).items()):
            steps = 0
            for row in run.rows:
                steps += int(row.get("collector/frames", 0))
                if f"evaluation/cost@{HORIZONS[-1]}" in row:
                    cost = [round(row[f"evaluation/cost@{horizon}"], 3) for horizon in HORIZONS]
                    found.append(
                        {"arm": arm, "seed": seed, "steps": steps, "cost": cost, "cpu": spent}
                    )
    return found


def costs(rows, arm, steps):
    """A row a seed, a column a horizon."""
    return np.array([row["cost"] for row in rows if (row["arm"], row["steps"]) == (arm, steps)])


def evaluations(rows, arm):
    """Steps met at the evaluations of an arm."""
    return sorted({row["steps"] for row in rows if row["arm"] == arm})


def table(rows):
    """Markdown: means over seeds, the range at the longest horizon, steps met and CPU."""
    head = " | ".join(str(horizon) for horizon in HORIZONS)
    lines = [
        f"| first H steps, H = | steps met | seeds | {head} | seeds at {HORIZONS[-1]} | CPU s |",
        f"|---|--:|--:|{'--:|' * len(HORIZONS)}---|--:|",
    ]
    for arm, name in ARMS.items():
        for steps in evaluations(rows, arm):
            found = costs(rows, arm, steps)
            cells = [f"{mean:.1f}" if 0 < mean < 10 else f"{mean:.0f}" for mean in found.mean(0)]
            ends = f"{found[:, -1].min():.0f} to {found[:, -1].max():.0f}"
            whole = steps == evaluations(rows, arm)[-1]
            spent = next(row["cpu"] for row in rows if row["arm"] == arm)
            lines.append(
                f"| {name} | {steps:,} | {len(found)} | {' | '.join(cells)} | {ends} "
                f"| {f'{spent:.0f}' if whole else ''} |"
            )
    return "\n".join(lines)


def draw(rows, path):
    """Cost against horizon: each seed, the mean, and what a cost of every step would be."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for index, (arm, name) in enumerate(ARMS.items()):
        colour, at = colour_of(index), evaluations(rows, arm)
        # Of SAC also its first evaluation, when DAgger had long arrived.
        for steps in (at[0], at[-1]) if arm == "sac" else at[-1:]:
            found, last = costs(rows, arm, steps), steps == at[-1]
            for each in found:
                axes.plot(HORIZONS, each, color=colour, alpha=0.25, linewidth=0.8)
            label, style = f"{name}, {steps:,} steps met", ".-" if last else ".:"
            # Two pairs of lines coincide: what is drawn first is wider.
            width = 5.5 - 1.4 * index
            axes.plot(HORIZONS, found.mean(0), style, color=colour, label=label, linewidth=width)
    axes.plot(HORIZONS, HORIZONS, "--", color="grey", label="off the road at every step")
    # Costs of 0 belong to the figure as well.
    axes.set_xscale("log", base=2)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(-0.3, 1000)
    axes.set_xticks(HORIZONS, HORIZONS)
    axes.set_xlabel("horizon H")
    axes.set_ylabel("steps of the first H off the road")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    show(__doc__, collect, table, draw)
