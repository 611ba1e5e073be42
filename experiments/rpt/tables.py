"""What text.sh, scratchpad.sh, levels.sh and rlvr.sh have written: ``tables.py RUNS``.

``RUNS`` has a folder per arm, with one run a seed; ``RUNS/levels`` and ``RUNS/rlvr`` have the same
arms again.
"""

import argparse
from pathlib import Path
from statistics import mean

from rlcomp.report.runs import find_runs
from rlcomp.report.statistics import area, curve, final
from rlcomp.report.tables import seconds

ARMS = ("base", "next_token", "rpt", "rpt_random", "rpt_entropy", "rpt_no_thought", "rlp")


def finished(folder):
    """The finished runs of a folder, one a seed; none where there is no folder."""
    return [run for run in find_runs([str(folder)]) if run.state == "finished"] * folder.is_dir()


def cell(values):
    """A mean over seeds, from the least to the largest."""
    return f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})" if values else "-"


def levels(runs, positions):
    """Markdown: accuracy of the first token at held-out positions, at once and behind a thought."""
    columns = [f"{each}, {how}" for each in positions for how in ("at once", "after a thought")]
    lines = [f"| arm | s | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for arm in [arm for arm in ARMS if (runs / "levels" / arm).is_dir()]:
        cells = [f"{mean(seconds(run) for run in finished(runs / arm)):.0f}"]
        for position in positions:
            ends = finished(runs / "levels" / arm / position)
            cells += [
                cell([final(run, metric) for run in ends])
                for metric in ("direct/direct", "evaluation/greedy")
            ]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rlvr(runs):
    """Markdown: sampled accuracy on the small task, before RL, at the end, and over all steps."""
    lines = ["| arm | after the warm start | at the end | over the steps |", "|---|---|---|---|"]
    for arm in [arm for arm in ARMS if (runs / "rlvr" / arm).is_dir()]:
        ends = finished(runs / "rlvr" / arm)
        before = [final_of_warm_start(run) for run in ends]
        last = [final(run, "evaluation/sampled") for run in ends]
        areas = [area(run, "evaluation/sampled") for run in ends]
        lines.append(f"| {arm} | {cell(before)} | {cell(last)} | {cell(areas)} |")
    return "\n".join(lines)


def final_of_warm_start(run):
    """Sampled accuracy at the last evaluation before RL."""
    end = sum(row["phase"] == "warm_start" for row in run.rows)
    steps, values = curve(run, "evaluation/sampled")
    return float(values[steps <= end][-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--positions", nargs="+", default=["easy", "medium", "hard"])
    given = parser.parse_args()
    print(levels(given.runs, given.positions), end="\n\n")
    print(rlvr(given.runs))
