"""Every recipe killed and gone on with: ``python tests/faults/run_all.py [RECIPE ...]``.

Forks each run off this process, so that it costs a second. Writes the table of docs/faults.md; rows
of recipes that were not chosen stay. Ends with 1 where a run was lost or is another one.
"""

import argparse
import gc
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from campaign import campaign
from page import rows_of, write
from recipes import NEW_EPISODES, RECIPES, composed

HEAD = (
    "recipe",
    "points in a run",
    "kill points",
    "runs of 3 random kills",
    "SIGTERM, SIGINT",
    "SIGSTOP",
    "begun anew",
    "equal",
    "CPU s",
)


def row(name, folder, points, runs):
    """The cells of a recipe, and what was wrong."""
    start = os.times()
    job = composed(name, folder / "base")
    gc.freeze()  # else every child copies what the collector touches
    found = campaign(
        job, folder / "runs", points=points, runs=runs, new_episodes=name in NEW_EPISODES
    )
    counts, end = found.counts, os.times()
    kinds = ("killed", "random", "asked", "paused")
    done = sum(counts[kind] for kind in kinds)
    cells = [name, len(found.names), *(counts[kind] for kind in kinds), counts["begun anew"]]
    seconds = sum(end[:4]) - sum(start[:4])
    return [*map(str, cells), f"{counts['equal']} of {done}", f"{seconds:.0f}"], found.wrong


def main(names, points, runs):
    """Run, write and tell."""
    torch.set_num_threads(1)
    wrong = []
    for name in names or RECIPES:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
            cells, told = row(name, Path(folder), points, runs)
        print(
            f"{' | '.join(cells)} ({time.monotonic() - start:.0f} s)", *told, sep="\n", flush=True
        )
        wrong += told
        if (points, runs) == (PARSER.get_default("points"), PARSER.get_default("runs")):
            rows = rows_of("recipes") | {name: cells}
            write("recipes", HEAD, [rows[each] for each in RECIPES if each in rows])
    sys.exit(bool(wrong))


PARSER = argparse.ArgumentParser(description=__doc__)
PARSER.add_argument("recipes", nargs="*", choices=[[], *RECIPES])
PARSER.add_argument("--points", type=int, default=42)
PARSER.add_argument("--runs", type=int, default=20)

if __name__ == "__main__":
    arguments = PARSER.parse_args()
    main(arguments.recipes, arguments.points, arguments.runs)
