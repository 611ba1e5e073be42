"""What runs.sh has written: ``table.py RUNS --figure F.png``."""

import argparse
from pathlib import Path
from statistics import mean

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.io.json_lines import read_lines

ARMS = {
    "hil_serl": "RLPD with interventions",
    "rlpd": "RLPD, 100 demonstrated steps",
    "more": "RLPD, 680 demonstrated steps",
    "sac": "SAC alone",
}


def curves(where, arm, metric):
    """A metric of each finished run of an arm, by seed: a list of values over rounds."""
    found = {}
    for run in sorted(Path(where).glob(f"{arm}-*")):
        rows = [row for row in read_lines(run / "metrics.jsonl") if row["phase"] == "rl"]
        if (run / "curve.png").is_file() and metric in rows[0]:  # drawn at its end
            found[run.name.rpartition("-")[2]] = [row[metric] for row in rows]
    return found


def first_of_three(values):
    """The first of three evaluations in a row that succeed, from 1; None if there are none."""
    ways = range(len(values) - 2)
    return next((at + 1 for at in ways if min(values[at : at + 3]) == 1), None)


def table(where):
    """Markdown, an arm a row."""
    print(
        "| | seeds | first of three successes in a row, round | mean success | steps of the guide |"
    )
    print("|---|---|---|---|---|")
    for arm, name in ARMS.items():
        success = curves(where, arm, "evaluation/success")
        guided = curves(where, arm, "replay/demonstrations")
        if success:
            rounds = " ".join(str(first_of_three(row) or "-") for row in success.values())
            steps = " ".join(str(int(row[-1])) for row in guided.values()) or "0"
            height = mean(map(mean, success.values()))
            print(f"| {name} | {' '.join(success)} | {rounds} | {height:.2f} | {steps} |")


def draw(where, path):
    """Success alone, and the share of steps taken over, over rounds."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2)
    for axes, metric in zip(panels, ("evaluation/success", "intervention/share"), strict=True):
        for number, (arm, name) in enumerate(ARMS.items()):
            found = curves(where, arm, metric)
            if found:
                rounds = range(1, 1 + len(next(iter(found.values()))))
                for row in found.values():
                    axes.plot(rounds, row, color=f"C{number}", alpha=0.2)
                middle = [mean(values) for values in zip(*found.values(), strict=True)]
                axes.plot(rounds, middle, color=f"C{number}", label=name)
        axes.set_xlabel("round of 128 steps and 128 updates")
        axes.set_ylabel(metric)
        axes.grid(alpha=0.3)
    if panels[0].lines:
        panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs")
    parser.add_argument("--figure")
    given = parser.parse_args()
    table(given.runs)
    if given.figure:
        draw(given.runs, given.figure)
