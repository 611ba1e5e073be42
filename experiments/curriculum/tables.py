"""Orders of preference pairs: ``tables.py RUNS|RESULTS.jsonl``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean

from rlcomp.io.json_lines import read_lines
from rlcomp.report.statistics import estimate, paired

ARMS = {
    "easy_first": "easy, bridging, judged",
    "hard_first": "judged, bridging, easy",
    "in_turns": "the three in turns",
}
KEYS = ("ordered", "after_10", "after_30")


def collect(runs):
    """A row a run: how the reward model orders pairs, and the policy after steps of RL."""
    found = []
    for arm in ARMS:
        for path in sorted((runs / arm).glob("*/metrics.jsonl")):
            rows = read_lines(path)
            probed = [row for row in rows if row["phase"] == "probe"]
            right = [
                row["reward_model/accuracy"] for row in probed if "reward_model/accuracy" in row
            ]
            said = [row["evaluation/sampled"] for row in rows if "evaluation/sampled" in row]
            found.append(
                {
                    "arm": arm,
                    "seed": path.parent.name,
                    "judged_steps": sum("pairing/unjudged" in row for row in rows),
                    "ordered": round(mean(right or [float("nan")]), 4),
                    "after_10": round(said[0], 4),
                    "after_30": round(said[-1], 4),
                }
            )
    return found


def by_seed(rows, arm, key):
    """Of each seed a value."""
    return {row["seed"]: float(row[key]) for row in rows if row["arm"] == arm}


def table(rows):
    """Markdown: means with 95 % intervals, and what is paired by seed."""
    lines = [
        "| pairs | seeds | judged steps | ordered as the utility does | after 10 steps of RL "
        "| after 30 | ordered, less the curriculum | after 10, less it | after 30, less it |",
        f"|{'---|' * 9}",
    ]
    for arm, name in ARMS.items():
        held = [by_seed(rows, arm, key) for key in KEYS]
        cells = [estimate([*values.values()]).text() for values in held]
        for key, values in zip(KEYS, held, strict=True):
            less = paired(values, by_seed(rows, "easy_first", key))
            cells.append(less.text(sign="+") if less and arm != "easy_first" else "-")
        steps = {row["judged_steps"] for row in rows if row["arm"] == arm}
        lines.append(f"| {name} | {len(held[0])} | {max(steps)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    rows = read_lines(given.runs) if given.runs.suffix == ".jsonl" else collect(given.runs)
    if given.results:
        given.results.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    print(table(rows))


if __name__ == "__main__":
    main()
