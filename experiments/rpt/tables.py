"""What text.sh, scratchpad.sh, levels.sh and rlvr.sh have written: ``tables.py RUNS``.

``RUNS`` has a folder per arm, with one run a seed; ``RUNS/levels`` and ``RUNS/rlvr`` have the same
arms again. Runs that have not finished do not count.
"""

import argparse
from pathlib import Path
from statistics import mean

from rlcomp.report.runs import finished
from rlcomp.report.statistics import area_under, curve, final
from rlcomp.report.tables import seconds

ARMS = ("base", "next_token", "rpt", "rpt_random", "rpt_result", "rpt_entropy", "rpt_no_thought")
ARMS += ("rlp",)
SAMPLED = "evaluation/sampled"


def cell(values, digits=3):
    """A mean over seeds, from the least to the largest, and how many there are unless three."""
    if not values:
        return "-"
    shown = [f"{value:.{digits}f}" for value in (mean(values), min(values), max(values))]
    count = "" if len(values) == 3 else f", {len(values)} seeds"
    return f"{shown[0]} ({shown[1]} to {shown[2]}{count})"


def levels(runs, positions):
    """Markdown: accuracy of the next token at held-out positions, at once and behind a thought."""
    columns = [f"{each}, {how}" for each in positions for how in ("at once", "after a thought")]
    lines = [f"| arm | s | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for arm in [arm for arm in ARMS if (runs / "levels" / arm).is_dir()]:
        cells = [cell([seconds(run) for run in finished(runs / arm).values()], 0)]
        for position in positions:
            ends = finished(runs / "levels" / arm / position).values()
            for metric in ("direct/direct", "evaluation/greedy"):
                cells.append(cell([final(run, metric) for run in ends]))
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def response(run):
    """Sampled accuracy before RL, at its end, and its mean over the steps of RL."""
    start = sum(row["phase"] == "warm_start" for row in run.rows)
    steps, values = curve(run, SAMPLED)
    of_rl = steps >= start
    return values[of_rl][0], values[of_rl][-1], area_under(steps[of_rl], values[of_rl])


def rlvr(runs):
    """Markdown: how each arm responds to RL on the small task."""
    lines = ["| arm | before RL | at its end | gain | over its steps |", "|---|---|---|---|---|"]
    for arm in [arm for arm in ARMS if (runs / "rlvr" / arm).is_dir()]:
        found = [response(run) for run in finished(runs / "rlvr" / arm).values()]
        columns = zip(*[(a, b, b - a, over) for a, b, over in found], strict=True)
        lines.append(f"| {arm} | {' | '.join(cell(column) for column in columns)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--positions", nargs="+", default=["hard"])
    given = parser.parse_args()
    print(levels(given.runs, given.positions), end="\n\n")
    print(rlvr(given.runs))
