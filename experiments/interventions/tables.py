"""Interventions beside demonstrations: ``tables.py RUNS|RESULTS.jsonl --figure F.png``."""

import re
from statistics import mean

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.experiment import show
from rlcomp.report.runs import finished
from rlcomp.report.statistics import estimate, paired

ARMS = {
    "hil_serl": "RLPD with interventions",
    "rlpd": "RLPD, 100 demonstrated steps",
    "more": "RLPD, 680 demonstrated steps",
    "sac": "SAC alone",
}
METRICS = {
    "success": ("evaluation/success", "success of the policy alone"),
    "share": ("intervention/share", "share of steps taken over"),
}


def cpu_seconds(runs, arm):
    """CPU seconds of a run, its share of the start included; NaN of runs started by hand."""
    path = runs / arm / "times"
    if not path.is_file():
        return float("nan")
    children = path.read_text().splitlines()[1]  # user and system
    spent = sum(60 * float(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", children))
    return spent / len(finished(runs / arm))


def collect(runs):
    """A row a run: its curves over rounds, and what the guide has walked."""
    found = []
    for arm in ARMS:
        spent = round(cpu_seconds(runs, arm), 1)
        for seed, run in sorted(finished(runs / arm).items()):
            rounds = [row for row in run.rows if row["phase"] == "rl"]
            told = {"arm": arm, "seed": seed, "cpu": spent}
            for key, (metric, _) in METRICS.items():
                told[key] = [round(row[metric], 4) for row in rounds if metric in row]
            told["guided"] = int(rounds[-1].get("replay/demonstrations", 0))
            found.append(told)
    return found


def first_of_three(values):
    """The first of three evaluations in a row that succeed, from 1; None if there are none."""
    ways = range(len(values) - 2)
    return next((at + 1 for at in ways if min(values[at : at + 3]) == 1), None)


def arrived(rows, arm):
    """By seed: the round of the first of three successes; one past the last where there is none."""
    own = [row for row in rows if row["arm"] == arm]
    return {row["seed"]: first_of_three(row["success"]) or len(row["success"]) + 1 for row in own}


def table(rows):
    """Markdown, an arm a row; rounds less those of RLPD are paired by seed."""
    lines = [
        "| | first of three successes in a row, round | less RLPD | mean success "
        "| steps of the guide | CPU s |",
        "|---|---|---|---|---|--:|",
    ]
    for arm, name in ARMS.items():
        own = [row for row in rows if row["arm"] == arm]
        if not own:
            continue
        rounds = " ".join(str(first_of_three(row["success"]) or "-") for row in own)
        compared = arm not in ("rlpd", "sac") and arrived(rows, "rlpd")
        apart = paired(arrived(rows, arm), arrived(rows, "rlpd")).text(1, "+") if compared else ""
        height = estimate([mean(row["success"]) for row in own]).text()
        steps = " ".join(str(row["guided"]) for row in own)
        lines.append(f"| {name} | {rounds} | {apart} | {height} | {steps} | {own[0]['cpu']:.0f} |")
    return "\n".join(lines)


def draw(rows, path):
    """Success alone, and the share of steps taken over, over rounds."""
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2)
    for axes, (key, (_, label)) in zip(panels, METRICS.items(), strict=True):
        for number, (arm, name) in enumerate(ARMS.items()):
            found = [row[key] for row in rows if row["arm"] == arm and row[key]]
            for values in found:
                axes.plot(range(1, 1 + len(values)), values, color=colour_of(number), alpha=0.2)
            if found:
                middle = [mean(values) for values in zip(*found, strict=True)]
                rounds = range(1, 1 + len(middle))
                axes.plot(rounds, middle, color=colour_of(number), label=name)
        axes.set_xlabel("round of 128 steps and 128 updates")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    show(__doc__, collect, table, draw)
