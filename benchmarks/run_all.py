"""Measure rows: ``python benchmarks/run_all.py [SCRIPT ...]``, e.g. ``step head "rollout.py S"``.

Each script runs in a process of its own, one after the other. The rows go to ``results.json`` and,
as a table, between the marks in ``README.md``, both beside this file. Rows of scripts that were not
chosen stay as they were, and keep the machine they were measured on. With ``--smallest`` scripts
run on next to nothing, to see that they run, and nothing is written.
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
    """The rows a script prints as its last line, in JSON; one that stops has a row that says so."""
    print(f"benchmarks/{command}", flush=True)
    script, *arguments = command.split()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        note = f"stopped with exit code {done.returncode}"
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return "bf16x6" if done.stdout.strip() == "True" else "torch's"


def _processor():
    names = Path("/proc/cpuinfo")
    lines = names.read_text().splitlines() if names.exists() else []
    return next((x.split(":")[1].strip() for x in lines if "model name" in x), platform.machine())


def kept_rows(file):
    """The rows of earlier runs, each with its machine; none of commands that are no more."""
    if not file.exists():
        return []
    before = json.loads(file.read_text())
    # A file with one machine for all rows is read too.
    rows = [{"machine": before.get("machine")} | entry for entry in before["rows"]]
    return [entry for entry in rows if entry["command"] in ORDER]


def machines(rows):
    """A line for each machine and its versions; with their rows, where there are several."""
    found = {}
    for entry in rows:
        found.setdefault(json.dumps(entry["machine"]), []).append(entry["row"])
    lines = []
    for text, names in found.items():
        facts = json.loads(text) or {"machine": "unknown"}
        said = ", ".join(f"{name} {value}" for name, value in facts.items())
        lines.append(said if len(found) == 1 else f"- {'; '.join(names)}: {said}")
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
    """Return all rows, or those named in full or by script."""
    known = {name for c in commands for name in (c, c.partition(".")[0])}
    if unknown := set(chosen) - known:
        raise SystemExit(f"run_all.py: no row is {', '.join(unknown)}: {', '.join(sorted(known))}")
    return [c for c in commands if not chosen or {c, c.partition(".")[0]} & set(chosen)]


def check(chosen):
    """Run the smallest; fail if one stops."""
    rows = [entry for command in chosen_of(SMALLEST, chosen) for entry in rows_of(command)]
    stopped = [x["command"] for x in rows if x.get("note", "").startswith("stopped")]
    raise SystemExit(f"stopped: {', '.join(stopped)}" if stopped else 0)


def main(chosen):
    """Run, and write both files."""
    commands = chosen_of(COMMANDS, chosen)
    here, file, readme = machine(), HERE / "results.json", HERE / "README.md"
    found = [entry | {"machine": here} for command in commands for entry in rows_of(command)]
    fresh = {entry["command"] for entry in found}
    kept = [entry for entry in kept_rows(file) if entry["command"] not in fresh]
    rows = sorted([*kept, *found], key=lambda entry: ORDER.index(entry["command"]))
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
