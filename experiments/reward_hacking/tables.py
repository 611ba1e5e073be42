"""What runs.sh has written: ``tables.py RUNS --figure F.png``."""

import argparse
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcomp.report.charts import colour_of
from rlcomp.report.runs import finished

ARMS = ("hacked", "stopped", "held", "honest")
SHOWN = ("reward/mean", "hacking_monitor/true", "rollout/length")


def steps(run):
    """The steps of RL."""
    return [row for row in run.rows if row["phase"] == "rl"]


def alarm(rows, gap=4.0, fall=-2.0):
    """The first step at which the gap has grown and the true reward has fallen, or -."""
    for number, row in enumerate(rows, 1):
        z = row.get("hacking_monitor/gap_z", 0.0), row.get("hacking_monitor/true_z", 0.0)
        if z[0] > gap and z[1] < fall:
            return str(number)
    return "-"


def table(runs):
    """Markdown: reward, true accuracy, length and alarm of each seed."""
    head = ["arm", "reward", "held-out accuracy", "length", "largest gap_z", "alarm at step"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for arm in ARMS:
        found = [(run, steps(run)) for run in finished(runs / arm).values()]
        held = [[row["evaluation/sampled"] for row in run.rows if "evaluation/sampled" in row]
                for run, _ in found]  # fmt: skip
        cells = [
            " ".join(f"{rows[-1]['reward/mean']:.2f}" for _, rows in found),
            " ".join(f"{each[0]:.2f}→{each[-1]:.2f}" for each in held),
            " ".join(f"{rows[-1]['rollout/length']:.1f}" for _, rows in found),
            " ".join(
                f"{max(row.get('hacking_monitor/gap_z', 0.0) for row in rows):.1f}"
                for _, rows in found
            ),
            " ".join(alarm(rows) for _, rows in found),
        ]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(runs, path):
    """Reward, true reward and length by step: a line a run."""
    figure = Figure(figsize=(12, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, metric in zip(figure.subplots(1, len(SHOWN)), SHOWN, strict=True):
        for number, arm in enumerate(ARMS):
            for count, run in enumerate(finished(runs / arm).values()):
                values = [row[metric] for row in steps(run) if metric in row]
                style = {"color": colour_of(number), "linewidth": 0.8}
                axes.plot(values, label=None if count else arm, **style)
                if arm == "stopped":
                    axes.plot(len(values) - 1, values[-1], "x", color=colour_of(number))
        axes.set(title=metric, xlabel="step")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    print(table(arguments.runs))
    if arguments.figure:
        draw(arguments.runs, arguments.figure)


if __name__ == "__main__":
    main()
