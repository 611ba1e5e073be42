"""Measure rows: ``python benchmarks/run_all.py [SCRIPT ...]``, e.g. ``step head "rollout.py S"``.

Each script runs in a process of its own, one after the other. The rows are written to
``results.json`` and, as a table, between the marks in ``README.md``, both beside this file. Rows of
scripts that were not chosen do not change, and keep the machine they were measured on. With
``--smallest`` the scripts run on tiny inputs, to see that they run, and nothing is written.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from measure import table, verdict

HERE = Path(__file__).parent
COMMANDS = [
    "rollout.py S",
    "rollout.py M",
    "rollout.py L",
    "rollout.py hostile",
    "scoring.py log_probs M",
    "scoring.py update M",
    "scoring.py update M --linear torch",
    "dead_groups.py S",
    "dead_groups.py M",
    "dead_groups.py hostile",
    "step.py S",
    "step.py M",
    "step.py L",
    "step.py hostile",
    "step.py M --linear torch",
    "step.py L --linear torch",
    "head.py",
    "plumbing.py",
    "scaling.py",
    "limit.py",
    "checkpoint.py",
    "checkpointing.py M",
    "turns.py S",
    "turns.py M 6 1",
    "trees.py S",
    "reward_pool.py",
    "endpoint.py",
    "cluster.py",
    "sandbox.py",
]
SMALLEST = [
    "rollout.py tiny 1 1",
    "scoring.py log_probs tiny 1",
    "scoring.py update tiny 1",
    "dead_groups.py tiny 1",
    "step.py tiny 1 1",
    "head.py 8 1 20000",
    "plumbing.py 1 tiny",
    "scaling.py 1 tiny",
    "limit.py 1 tiny",
    "checkpoint.py 1 tiny",
    "checkpointing.py tiny 1",
    "turns.py tiny 2 1",
    "trees.py tiny 2 1",
    "reward_pool.py 16 0.5",
    "endpoint.py 4 2",
    "cluster.py 1 1 prompts.batch_size=4 model.hidden_size=16",
    "sandbox.py 4 1",
]
ORDER = [f"python benchmarks/{command}" for command in COMMANDS]
PACKAGES = ("torch", "transformers", "tensordict", "trl")
SLOT = re.compile(r"<!-- results -->.*<!-- end of results -->", re.DOTALL)


def rows_of(command):
    """Run a script and return the rows that its last line has in JSON.

    A script that fails has one row, with its exit code.
    """
    print(f"benchmarks/{command}", flush=True)
    script, *arguments = command.split()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = process.stdout.strip().splitlines()
    if process.returncode or not lines:
        note = f"stopped with exit code {process.returncode}"
        rows = [{"row": command, "goal": None, "met": False, "note": note}]
    else:
        rows = json.loads(lines[-1])
        print(table(rows), flush=True)
    return [entry | {"command": f"python benchmarks/{command}"} for entry in rows]


def machine():
    """Describe this machine."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return {
        "processor": _processor(),
        "threads": 1,
        "products": _kernel(),
        "python": platform.python_version(),
        **versions,
    }


def _kernel():
    code = "from rlcomp.engine.native.bf16x6 import why_missing_bf16x6 as why; print(why() is None)"
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return "bf16x6" if process.stdout.strip() == "True" else "torch's"


def _processor():
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = (line.split(":")[1].strip() for line in lines if "model name" in line)
    return next(names, platform.machine())


def kept_rows(file):
    """Return the rows of earlier runs, each with its machine; skip commands that are not listed."""
    if not file.exists():
        return []
    before = json.loads(file.read_text())
    # An older file has one machine for all rows.
    rows = [{"machine": before.get("machine")} | entry for entry in before["rows"]]
    return [entry for entry in rows if entry["command"] in ORDER]


def machines(rows):
    """Describe each machine and its versions in a line; name its rows if there are several."""
    names_by_machine = {}
    for entry in rows:
        names_by_machine.setdefault(json.dumps(entry["machine"]), []).append(entry["row"])
    lines = []
    for text, names in names_by_machine.items():
        facts = json.loads(text) or {"machine": "unknown"}
        line = ", ".join(f"{name} {value}" for name, value in facts.items())
        lines.append(line if len(names_by_machine) == 1 else f"- {'; '.join(names)}: {line}")
    return "\n".join(lines)


def summary(rows):
    """List rows below their goal, too noisy, or not measured yet."""
    measured = {entry["command"] for entry in rows}
    parts = {
        "not met": [entry["row"] for entry in rows if entry["met"] is False],
        "noisy": [entry["row"] for entry in rows if "noisy" in verdict(entry)],
        "not run": [command for command in ORDER if command not in measured],
    }
    lines = [f"{what}: {', '.join(names)}" for what, names in parts.items() if names]
    return "\n".join(lines) or "all goals met"


def chosen_of(commands, chosen):
    """Return all commands, or the ones that are chosen in full or by their script."""
    known = {name for c in commands for name in (c, c.partition(".")[0])}
    if unknown := set(chosen) - known:
        raise SystemExit(f"run_all.py: no row is {', '.join(unknown)}: {', '.join(sorted(known))}")
    return [c for c in commands if not chosen or {c, c.partition(".")[0]} & set(chosen)]


def check(chosen):
    """Run the chosen scripts on tiny inputs; fail if one stops."""
    rows = [entry for command in chosen_of(SMALLEST, chosen) for entry in rows_of(command)]
    stopped = [row["command"] for row in rows if row.get("note", "").startswith("stopped")]
    raise SystemExit(f"stopped: {', '.join(stopped)}" if stopped else 0)


def main(chosen):
    """Run the chosen scripts, and write both files."""
    commands = chosen_of(COMMANDS, chosen)
    facts, file, readme = machine(), HERE / "results.json", HERE / "README.md"
    fresh = [entry | {"machine": facts} for command in commands for entry in rows_of(command)]
    measured = {entry["command"] for entry in fresh}
    kept = [entry for entry in kept_rows(file) if entry["command"] not in measured]
    rows = sorted([*kept, *fresh], key=lambda entry: ORDER.index(entry["command"]))
    file.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    body = f"<!-- results -->\n{table(rows)}\n\n{machines(rows)}\n<!-- end of results -->"
    readme.write_text(SLOT.sub(lambda _: body, readme.read_text()))
    print(summary(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*")
    parser.add_argument("--smallest", action="store_true")
    arguments = parser.parse_args()
    (check if arguments.smallest else main)(arguments.scripts)
